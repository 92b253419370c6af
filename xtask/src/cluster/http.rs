//! HTTP/1.0 requests to a node on loopback, and fields of JSON answers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The body of the answer to `GET path`.
/// # Errors
/// The node does not answer within ten seconds.
pub(super) fn get(address: &str, path: &str) -> std::io::Result<String> {
    request(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"))
}

/// The body of the answer to a `POST` of a JSON text.
/// # Errors
/// As `get`.
pub(super) fn post(address: &str, json: &str) -> std::io::Result<String> {
    let head = format!("POST / HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n");
    request(address, &format!("{head}Content-Length: {}\r\n\r\n{json}", json.len()))
}

fn request(address: &str, text: &str) -> std::io::Result<String> {
    let address = address.parse().map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    // CometBFT itself waits ten seconds for a transaction.
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((_, body)) => Ok(body.to_owned()),
        None => Err(std::io::Error::other("the node closed the connection without an answer")),
    }
}

/// The value of the first field called `name`, a string or a number, in a JSON text.
pub(super) fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    fields(json, name).next()
}

/// The values of all fields called `name`.
pub(super) fn fields<'a>(json: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let key = format!("\"{name}\":");
    let values: Vec<&str> = json.split(key.as_str()).skip(1).collect();
    values.into_iter().map(|rest| {
        let rest = rest.trim_start();
        match rest.strip_prefix('"') {
            Some(text) => text.split('"').next().unwrap_or_default(),
            None => rest.split([',', '}', ']']).next().unwrap_or_default().trim(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_texts_numbers_and_words() {
        let json = r#"{"a":"x","list":[{"n":"1"},{"n":"22"}],"flag":false,"code":7}"#;
        assert_eq!(field(json, "a"), Some("x"));
        assert_eq!(field(json, "flag"), Some("false"));
        assert_eq!(field(json, "code"), Some("7"));
        assert_eq!(fields(json, "n").collect::<Vec<_>>(), ["1", "22"]);
        assert_eq!(field(json, "b"), None);
    }
}
