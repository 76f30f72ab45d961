//! What a refused request means: for whom, and for how long.

use tollgate::Nanos;

use crate::headers::{Said, Scope, WAIT_MAX, Wait};
use crate::profile::{Body, BodyUnit, Profile, Refill};

/// The longest body that is read; a longer one is not the API's.
pub const BODY_BYTES_MAX: usize = 1 << 16;

/// A request was refused because of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) whom: Whom,
    pub(crate) scope: Scope,
    /// For how long, where that is said.
    pub(crate) wait: Option<Wait>,
}

/// Who has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// Requests of the same bucket.
    Bucket,
    /// All but those that the limit on everything does not count.
    Paced,
    /// Everybody.
    All,
}

/// What the body of an API's refusal says.
#[derive(Clone, Copy, Debug, Default)]
struct Spoken {
    retry_after: Option<Wait>,
    global: bool,
}

/// Whether a response refuses its request because of a limit.
pub(crate) fn refusal(
    profile: &Profile,
    status: u16,
    said: &Said<'_>,
    body: Option<&[u8]>,
) -> Option<Refusal> {
    let is_refused = match status {
        429 => true,
        403 if profile.forbidden_is_limited => is_limit(said, body),
        503 => said.retry_after.is_some(),
        _ => false,
    };
    if !is_refused {
        return None;
    }
    let spoken = match profile.body {
        Body::Json { retry_after } => body.and_then(|body| read(body, retry_after)),
        Body::Any => None,
    };
    let by_a_proxy = status == 429
        && profile.body != Body::Any
        && spoken.is_none()
        && !said.global
        && said.scope.is_none()
        && said.bucket.is_none()
        && said.resource.is_none();
    let spoken = spoken.unwrap_or_default();
    let global = said.global || spoken.global || said.scope == Some(Scope::Global);
    let (whom, scope) = match (by_a_proxy, global) {
        (true, _) => (Whom::All, Scope::Global),
        (false, true) => (Whom::Paced, Scope::Global),
        (false, false) => (Whom::Bucket, said.scope.unwrap_or(Scope::User)),
    };
    let wait = said.retry_after.or(spoken.retry_after).or_else(|| reset(profile, said));
    Some(Refusal { whom, scope, wait })
}

/// Whether 403 speaks of a limit rather than of what the caller may see.
fn is_limit(said: &Said<'_>, body: Option<&[u8]>) -> bool {
    const WORDS: &[u8] = b"rate limit";
    let in_body = || {
        let body = body.unwrap_or_default();
        body[..body.len().min(BODY_BYTES_MAX)]
            .windows(WORDS.len())
            .any(|window| window.eq_ignore_ascii_case(WORDS))
    };
    said.retry_after.is_some() || spent(said).next().is_some() || in_body()
}

fn spent<'s>(said: &'s Said<'_>) -> impl Iterator<Item = Option<Wait>> + 's {
    let spent = said.budgets.iter().filter(|told| told.remaining == Some(0));
    spent.map(|told| told.reset_in)
}

/// The latest reset of what is spent. Where budgets fill up little by little it is when they are
/// full, and nobody has to wait for that.
fn reset(profile: &Profile, said: &Said<'_>) -> Option<Wait> {
    if profile.refill == Refill::Continuously {
        return None;
    }
    spent(said).flatten().max_by_key(|wait| wait.length)
}

fn read(body: &[u8], unit: BodyUnit) -> Option<Spoken> {
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let object = body.as_object()?;
    let scale = match unit {
        BodyUnit::Seconds => 1.0,
        BodyUnit::Milliseconds => 1e-3,
    };
    let retry_after = object.get("retry_after").and_then(serde_json::Value::as_f64);
    Some(Spoken {
        retry_after: retry_after.and_then(|number| wait(number * scale)),
        global: object.get("global").and_then(serde_json::Value::as_bool).unwrap_or(false),
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in bounds")]
fn wait(secs: f64) -> Option<Wait> {
    // What is below zero says nothing, as in a field: who came straight back would be refused again.
    if secs.is_nan() || secs < 0.0 {
        return None;
    }
    // A double beyond what an integer holds becomes the largest integer.
    let length = Nanos::new((secs * 1e9).ceil() as u128);
    let truly_secs = (length > WAIT_MAX).then_some(secs);
    Some(Wait { length: length.min(WAIT_MAX), truly_secs })
}
