//! What a refused request means: for whom, and for how long.

mod units;

use ratekeeper_time::Moment;

use crate::arena::Slot;
use crate::dialect::Dialect;
use crate::headers::{Said, Scope, Told, Wait};
use crate::profile::{Body, BodyUnit, Profile, Refill};
use units::{Number, Reset};

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

/// The request that a response answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) bucket: Option<Slot>,
    pub(crate) sent: Moment,
    pub(crate) now: Moment,
    /// Whether no answer to it has a body, as with `HEAD`.
    pub(crate) is_bodiless: bool,
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
    retry_after: Option<Number>,
    global: bool,
}

/// Whether a response refuses its request because of a limit.
pub(crate) fn refusal(
    profile: &Profile,
    status: u16,
    said: &Said<'_>,
    body: Option<&[u8]>,
    answered: Answered,
    dialect: &mut Dialect,
) -> Option<Refusal> {
    let is_refused = match status {
        429 => true,
        403 if profile.forbidden_is_limited => is_limit(said, body),
        503 => said.retry_after.is_some(),
        _ => false,
    };
    let Answered { bucket, sent, now, is_bodiless } = answered;
    if !is_refused {
        if status < 400 {
            dialect.hear_served(bucket, sent);
        }
        return None;
    }
    let spoken = body.and_then(read);
    if status != 503 {
        let number = spoken.and_then(|spoken| spoken.retry_after);
        let ends = number.map(|number| now.after(number.in_seconds()));
        dialect.hear_refused(bucket, (sent, now), ends);
    }
    let by_a_proxy = status == 429
        && profile.body != Body::Any
        && body.is_some()
        && !is_bodiless
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
    let reset = reset(profile, said);
    let unit = match profile.body {
        Body::Json { retry_after } => retry_after,
        Body::Any => BodyUnit::AsTold,
    };
    let in_body = spoken.retry_after;
    let header = said.retry_after.map(|wait| units::of_header(wait, in_body, unit, reset, dialect));
    let window = profile.paces.of_all().filter(|_| global).map(|pace| pace.window);
    let told = units::Told { header, reset, window };
    let in_body = in_body.and_then(|number| units::of_body(number, unit, told, dialect));
    let (is_millis, is_guess) = match (header, in_body) {
        (Some(_), _) => (dialect.is_header_millis, false),
        (None, in_body) => in_body.map_or((false, false), |it| (it.is_millis, it.is_guess)),
    };
    let wait = header.or(in_body.map(|it| it.wait));
    if let Some(wait) = wait.filter(|_| unit == BodyUnit::AsTold && is_millis) {
        dialect.shorten(bucket, now, wait.length, is_guess);
    }
    Some(Refusal { whom, scope, wait: wait.or(reset.map(|reset| reset.wait)) })
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

fn spent<'s, 'h>(said: &'s Said<'h>) -> impl Iterator<Item = &'s Told<'h>> {
    said.budgets.iter().filter(|told| told.remaining == Some(0))
}

/// The latest reset of what is spent. Where budgets fill up little by little it is when they are
/// full, and nobody has to wait for that.
fn reset(profile: &Profile, said: &Said<'_>) -> Option<Reset> {
    if profile.refill == Refill::Continuously {
        return None;
    }
    let reset =
        |told: &Told<'_>| Some(Reset { wait: told.reset_in?, is_rounded: told.rounded.is_some() });
    spent(said).filter_map(reset).max_by_key(|reset| reset.wait.length)
}

fn read(body: &[u8]) -> Option<Spoken> {
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let object = body.as_object()?;
    let number = object.get("retry_after").and_then(serde_json::Value::as_number);
    Some(Spoken {
        retry_after: number.and_then(Number::new),
        global: object.get("global").and_then(serde_json::Value::as_bool).unwrap_or(false),
    })
}
