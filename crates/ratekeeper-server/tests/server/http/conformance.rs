//! Whether an answer is one that the document of the API tells about.

use serde_json::Value;

/// The operation of a document that a method and a path lead to.
pub(super) fn operation<'d>(document: &'d Value, method: &str, path: &str) -> Option<&'d Value> {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (parts, asked) = (template.split('/'), path.split('/'));
        template.split('/').count() == path.split('/').count()
            && parts.zip(asked).all(|(part, asked)| part.starts_with('{') || part == asked)
    };
    let mut paths = document["paths"].as_object().unwrap().iter();
    let (_, item) = paths.find(|(template, _)| fits(template))?;
    item.get(method.to_lowercase())
}

/// Says what about an answer is not as it is told.
pub(super) fn check(
    document: &Value,
    operation: &Value,
    (status, content_type, text): (u16, &str, &str),
) -> Result<(), String> {
    let told = operation["responses"].get(status.to_string());
    let told = resolve(document, told.ok_or("the status is not told")?);
    let Some(contents) = told.get("content").and_then(Value::as_object) else {
        return if text.is_empty() { Ok(()) } else { Err("there is a body".into()) };
    };
    let plain = |full: &str| full.split(';').next().map(str::to_owned);
    let content = contents.iter().find(|(name, _)| plain(name) == plain(content_type));
    let (name, content) = content.ok_or("the content type is not told")?;
    if !name.ends_with("json") {
        return Ok(());
    }
    let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    fits(document, &content["schema"], &value).map_err(|(at, what)| format!("{at}: {what}"))
}

type Misfit = (String, String);

/// As much of JSON Schema as the document uses.
fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), Misfit> {
    let schema = resolve(document, schema);
    let wrong = |what: &str| (String::new(), format!("{what}: {value} is not {schema}"));
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fits(document, part, value)?;
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let fitting = options.iter().filter(|part| fits(document, part, value).is_ok()).count();
        if fitting != 1 {
            return Err(wrong("fits not exactly one"));
        }
    }
    if !is_of_type(&schema["type"], value) {
        return Err(wrong("type"));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return Err(wrong("enum"));
    }
    let beyond = |bound: &str, is_beyond: fn(f64, f64) -> bool| {
        let pair = schema[bound].as_f64().zip(value.as_f64());
        pair.is_some_and(|(bound, value)| is_beyond(value, bound))
    };
    if beyond("minimum", |value, least| value < least)
        || beyond("maximum", |value, most| value > most)
    {
        return Err(wrong("bounds"));
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        let within = |(at, what): Misfit| (format!("[{place}]{at}"), what);
        fits(document, &schema["items"], item).map_err(within)?;
    }
    fields_fit(document, schema, value)
}

fn fields_fit(document: &Value, schema: &Value, value: &Value) -> Result<(), Misfit> {
    let Some(fields) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        if !fields.contains_key(name) {
            return Err((format!(".{name}"), "is missing".into()));
        }
    }
    for (name, told) in schema["properties"].as_object().into_iter().flatten() {
        let Some(field) = fields.get(name) else { continue };
        fits(document, told, field).map_err(|(at, what)| (format!(".{name}{at}"), what))?;
    }
    Ok(())
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let is = |wanted: &Value| match wanted.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("number") => value.is_number(),
        // What is larger than 64 bits is read as a double.
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    };
    match types {
        Value::Array(types) => types.iter().any(is),
        one => is(one),
    }
}

fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}
