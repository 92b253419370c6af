//! Parses C declarations: preprocessed headers, and `surface.txt`.
//!
//! In: text. Out: declarations in the order of the text. Reads the subset of C that `c.h` uses:
//! opaque structs, structs with fields, enumerations, callbacks and functions. Skips statements
//! without `rocksdb_`, because they come from system headers.

use crate::{Declaration, Function, Item, Parameter, RELEASES, Type};
use std::fmt;

/// An error: the text is not a declaration of the C API. Contains the statement.
#[derive(Debug)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a declaration of RocksDB's C API: {}", self.0)
    }
}

impl std::error::Error for ParseError {}

/// The declarations of a preprocessed header.
pub fn parse_header(text: &str) -> Result<Vec<Item>, ParseError> {
    let mut items = Vec::new();
    for statement in statements(text) {
        if statement.contains("rocksdb_") {
            parse_statement(&statement, &mut items)?;
        }
    }
    Ok(items)
}

/// The declarations of `surface.txt`: one in each line, as `FIRST-LAST DECLARATION;`. A missing
/// `LAST` means the newest release.
pub fn parse_surface(text: &str) -> Result<Vec<Declaration>, ParseError> {
    let mut surface = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let error = || ParseError(line.to_string());
        let (releases, declaration) = line.split_once(' ').ok_or_else(error)?;
        let (first, last) = releases.split_once('-').ok_or_else(error)?;
        let index = |name: &str| RELEASES.iter().position(|release| *release == name).ok_or_else(error);
        let first = index(first)?;
        let last = if last.is_empty() { RELEASES.len() - 1 } else { index(last)? };
        let mut items = parse_header(declaration)?;
        match items.pop() {
            Some(item) if items.is_empty() && first <= last => {
                surface.push(Declaration { first, last, item })
            }
            _ => return Err(error()),
        }
    }
    Ok(surface)
}

/// The statements of `text`, without final semicolons, comments and preprocessor lines.
fn statements(text: &str) -> Vec<String> {
    let after_comment =
        |part: &str| part.split_once("*/").map_or(String::new(), |(_, code)| code.to_string());
    let mut parts = text.split("/*");
    let text = parts.next().unwrap_or_default().to_string() + &parts.map(after_comment).collect::<String>();
    let mut statements = vec![String::new()];
    let mut depth = 0;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    for line in lines.filter(|line| !line.starts_with("extern \"C\"") && *line != "}") {
        for c in line.chars().chain(['\n']) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if c == ';' && depth == 0 {
                statements.push(String::new());
            } else {
                statements.last_mut().expect("begins with one").push(c);
            }
        }
    }
    statements
}

fn parse_statement(statement: &str, items: &mut Vec<Item>) -> Result<(), ParseError> {
    let error = || ParseError(statement.to_string());
    let mut tokens = Tokens::new(statement);
    tokens.take("extern");
    if tokens.take("enum") {
        return parse_enum(&mut tokens, items).ok_or_else(error);
    }
    let item = if tokens.take("typedef") {
        if tokens.take("struct") { parse_struct(&mut tokens) } else { parse_callback(&mut tokens) }
    } else {
        parse_function(&mut tokens)
    };
    items.push(item.filter(|_| tokens.at_end()).ok_or_else(error)?);
    Ok(())
}

fn parse_enum(tokens: &mut Tokens, items: &mut Vec<Item>) -> Option<()> {
    while !tokens.take("{") {
        tokens.next()?;
    }
    let mut value = 0;
    while !tokens.take("}") {
        let name = tokens.next()?;
        if tokens.take("=") {
            value = parse_value(tokens, items)?;
        }
        items.push(Item::Constant(name, value));
        value += 1;
        tokens.take(",");
    }
    tokens.at_end().then_some(())
}

/// Parses a number or the name of an earlier constant. The number may be negative or shifted to the
/// left.
fn parse_value(tokens: &mut Tokens, items: &[Item]) -> Option<i64> {
    let sign = if tokens.take("-") { -1 } else { 1 };
    let text = tokens.next()?;
    let known = |item: &Item| matches!(item, Item::Constant(name, _) if *name == text);
    if let Some(Item::Constant(_, value)) = items.iter().find(|item| known(item)) {
        return Some(*value);
    }
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    if tokens.take("<") {
        return if tokens.take("<") {
            Some((sign * number) << tokens.next()?.parse::<u32>().ok()?)
        } else {
            None
        };
    }
    Some(sign * number)
}

fn parse_struct(tokens: &mut Tokens) -> Option<Item> {
    let tag = tokens.next()?;
    if !tokens.take("{") {
        let name = tokens.next()?;
        return (name == tag).then_some(Item::Opaque(name));
    }
    let mut fields = Vec::new();
    while !tokens.take("}") {
        fields.push(parse_parameter(tokens)?);
        tokens.take(";").then_some(())?;
    }
    Some(Item::Struct(tokens.next()?, fields))
}

fn parse_callback(tokens: &mut Tokens) -> Option<Item> {
    let parameter = parse_parameter(tokens)?;
    match parameter.ty {
        Type::Function(function) => Some(Item::Callback(*function)),
        _ => None,
    }
}

fn parse_function(tokens: &mut Tokens) -> Option<Item> {
    let result = parse_type(tokens)?;
    let name = tokens.next()?;
    let parameters = parse_parameters(tokens)?;
    Some(Item::Function(Function { name, result, parameters }))
}

fn parse_parameters(tokens: &mut Tokens) -> Option<Vec<Parameter>> {
    tokens.take("(").then_some(())?;
    let mut parameters = Vec::new();
    while !tokens.take(")") {
        parameters.push(parse_parameter(tokens)?);
        tokens.take(",");
    }
    // In C, `(void)` means no parameters.
    if parameters.len() == 1 && parameters[0].ty == Type::Named("void".into()) {
        parameters.clear();
    }
    Some(parameters)
}

fn parse_parameter(tokens: &mut Tokens) -> Option<Parameter> {
    let ty = parse_type(tokens)?;
    if tokens.take("(") {
        tokens.take("*").then_some(())?;
        let name = if tokens.peek() == Some(")") { String::new() } else { tokens.next()? };
        tokens.take(")").then_some(())?;
        let parameters = parse_parameters(tokens)?;
        let function = Function { name: name.clone(), result: ty, parameters };
        return Some(Parameter { name, ty: Type::Function(Box::new(function)) });
    }
    let has_name = !matches!(tokens.peek(), Some("," | ")" | ";") | None);
    let name = if has_name { tokens.next()? } else { String::new() };
    if tokens.take("[") {
        tokens.take("]").then_some(())?;
        let constant = tokens.constant_before_name;
        return Some(Parameter { name, ty: Type::Pointer(constant, Box::new(ty)) });
    }
    Some(Parameter { name, ty })
}

/// Parses a base type and its pointers. `const` behind a star makes the pointer constant, not its
/// target.
fn parse_type(tokens: &mut Tokens) -> Option<Type> {
    let mut constant = tokens.take("const");
    tokens.take("struct");
    let mut name = tokens.next()?;
    while matches!(name.as_str(), "unsigned" | "signed" | "long" | "unsigned long")
        && matches!(tokens.peek(), Some("char" | "int" | "long" | "short"))
    {
        name = format!("{name} {}", tokens.next()?);
    }
    constant |= tokens.take("const");
    let name = if name == "_Bool" { "bool".to_string() } else { name };
    let mut ty = Type::Named(name);
    while tokens.take("*") {
        ty = Type::Pointer(constant, Box::new(ty));
        constant = tokens.take("const");
    }
    tokens.constant_before_name = constant;
    Some(ty)
}

/// The words and signs of a statement. The parser takes them from the front.
struct Tokens {
    tokens: Vec<String>,
    at: usize,
    /// Whether the last parsed type is constant. For a pointer: whether the pointer is constant,
    /// not its target.
    constant_before_name: bool,
}

impl Tokens {
    fn new(text: &str) -> Tokens {
        let mut tokens: Vec<String> = Vec::new();
        let mut in_word = false;
        for c in text.chars() {
            let of_word = c.is_alphanumeric() || c == '_';
            if of_word && in_word {
                tokens.last_mut().expect("a word began").push(c);
            } else if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            in_word = of_word;
        }
        Tokens { tokens, at: 0, constant_before_name: false }
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned()
    }

    /// Takes the next token if it equals `token`. Returns whether a token was taken.
    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn at_end(&self) -> bool {
        self.at == self.tokens.len()
    }
}
