//! HTML pages of `esker info` and `esker report`: their frame, escapes and tables.
//!
//! In: text and fragments. Out: one page without any resource elsewhere. Text reaches a page
//! through [`escape`] only.
//!
//! Invariant: the page has no script and loads nothing, so a forged name cannot do anything in it.

use std::fmt::{Arguments, Write};

const STYLE: &str = include_str!("html/page.css");

/// `text`, escaped for elements and attributes. Control characters become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Appends to a page.
pub(crate) fn push(page: &mut String, text: Arguments<'_>) {
    page.write_fmt(text).expect("a write to a string cannot fail");
}

/// A whole page around `body`.
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
}

/// A list of names and values.
pub(crate) fn pairs<'a>(page: &mut String, rows: impl IntoIterator<Item = (&'a str, String)>) {
    page.push_str("<dl>");
    for (name, value) in rows {
        push(page, format_args!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value)));
    }
    page.push_str("</dl>");
}

/// A table. Columns whose head begins with `>` are numbers, at the right. Cells are escaped.
pub(crate) fn table(page: &mut String, heads: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let class = |head: &str| if head.starts_with('>') { " class=\"n\"" } else { "" };
    page.push_str("<div class=\"scroll\"><table><thead><tr>");
    for head in heads {
        push(page, format_args!("<th{}>{}</th>", class(head), escape(head.trim_start_matches('>'))));
    }
    page.push_str("</tr></thead><tbody>");
    for row in rows {
        page.push_str("<tr>");
        for (cell, head) in row.iter().zip(heads) {
            push(page, format_args!("<td{}>{}</td>", class(head), escape(cell)));
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        let hostile = "<script>alert('1')</script>&\"\u{0}\n";
        let mut body = String::new();
        pairs(&mut body, [("name", hostile.to_owned())]);
        table(&mut body, &["a", ">b"], &[vec![hostile.to_owned(), hostile.to_owned()]]);
        let page = page(hostile, &body);
        assert!(!page.contains("<script") && !page.contains('\u{0}'), "{page}");
        assert_eq!(page.matches("&lt;script&gt;alert(&#39;1&#39;)").count(), 4);
    }
}
