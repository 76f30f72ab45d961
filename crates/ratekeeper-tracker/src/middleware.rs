//! A middleware for reqwest.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ratekeeper_tracker::{Costs, Gate, Profile};
//!
//! let gate = Gate::new(Profile::anthropic());
//! let client = gate.client(reqwest::Client::builder())?;
//! let request = client.post("http://127.0.0.1/v1/messages").with_extension(Costs {
//!     input_tokens: 1_200,
//!     output_tokens: 500,
//!     ..Costs::default()
//! });
//! # drop(request);
//! # Ok(())
//! # }
//! ```
//!
//! A request is tracked by its method, its path and where it goes. What else matters travels in its
//! extensions: [`Costs`] for what it costs, [`Group`] for what keeps budgets apart. The response has
//! [`Waited`](crate::Waited) among its extensions; for a refusal see
//! [`Refused::of`](crate::Refused::of).
//!
//! # Redirects
//!
//! With [`Gate::client`] each request that a redirect leads to asks the gate: the gate follows up to
//! ten redirects of a request, and whatever redirect policy the builder had is replaced, for reqwest
//! does not tell it. [`Gate::client_without_redirects`] follows none. A client that was built
//! otherwise follows redirects where no middleware sees it: then the gate was asked for the first
//! request only. All it can do is to count the last one when it is answered, and to warn, once. With
//! `reqwest::redirect::Policy::none()` a gate follows nothing, and the caller has the redirect.

use std::sync::atomic::{AtomicBool, Ordering};

use http::Extensions;
use ratekeeper_time::{Moment, Nanos};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, Middleware, Next};

use crate::gate::{Attempts, Gate, SendPermit};
use crate::redirect::{
    Copied, REDIRECTS_MAX, Redirects, TooManyRedirects, adds_credentials, is_elsewhere,
};
use crate::replay::{Replayed, may_speak};
use crate::{Costs, Group, Origin, Refused};

impl Gate {
    /// A client whose requests pass through the gate, also those that a redirect leads to.
    ///
    /// The gate follows redirects itself, and replaces the redirect policy of the builder, which
    /// reqwest lets nobody read. For a client that follows none there is
    /// [`client_without_redirects`](Self::client_without_redirects).
    ///
    /// It follows at most [`REDIRECTS_MAX`] redirects for a request, as reqwest does: what is private
    /// to an origin, which is `Authorization`, `Cookie` and every value that is marked as sensitive,
    /// is not sent to another. Default headers of the builder are sent everywhere, though. If one
    /// of them is marked as sensitive or may be a credential by its name (anything but `User-Agent`,
    /// `Accept` and a few more), redirects to other origins are not followed but returned; so give
    /// credentials with a request, or in `with_init` of the reqwest-middleware builder.
    ///
    /// Fails where reqwest cannot build its client.
    pub fn client(&self, builder: reqwest::ClientBuilder) -> reqwest::Result<ClientWithMiddleware> {
        let redirects = Redirects::Follow { to_others: !adds_credentials(&builder) };
        self.client_with(redirects, builder)
    }

    /// A client whose requests pass through the gate, and that follows no redirect: the caller has it.
    /// The redirect policy of the builder is replaced.
    ///
    /// Fails where reqwest cannot build its client.
    pub fn client_without_redirects(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> reqwest::Result<ClientWithMiddleware> {
        self.client_with(Redirects::Leave, builder)
    }

    fn client_with(
        &self,
        redirects: Redirects,
        builder: reqwest::ClientBuilder,
    ) -> reqwest::Result<ClientWithMiddleware> {
        let client = builder.redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(ClientBuilder::new(client).with(self.with_redirects(redirects)).build())
    }
}

#[async_trait::async_trait]
impl Middleware for Gate {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let mut attempts = Attempts::new(self);
        let mut refusal = None;
        loop {
            let mut permit = match acquire(&mut attempts, &request, extensions).await {
                Ok(permit) => permit,
                Err(refused) => return refusal.ok_or_else(|| Error::middleware(refused)),
            };
            attempts.waited.retries += u32::from(refusal.take().is_some());
            let is_last = self.redirects == Redirects::Leave
                && !attempts.may_retry(request.method().as_str());
            let copied = if is_last { Copied::address_of(&request) } else { Copied::of(&request) };
            permit.sent();
            let sent = self.now();
            let response = next.clone().run(request, &mut *extensions).await?;
            let is_seen =
                self.redirects != Redirects::Leave || !is_elsewhere(copied.url(), response.url());
            if !is_seen {
                permit = exchange(self, permit, (&copied, &response), extensions, sent);
            }
            let (mut response, is_refused) = track(self, permit, response).await?;
            response.extensions_mut().insert(attempts.waited);
            let method = copied.method().as_str();
            if is_refused && is_seen && attempts.may_retry(method) {
                let Some(again) = copied.again() else { return Ok(response) };
                (request, refusal) = (again, Some(response));
                continue;
            }
            let Some(onward) = self.redirected(copied, &response) else { return Ok(response) };
            attempts.redirected()?;
            request = onward;
            shorten(&mut request, self.now().since(sent));
        }
    }
}

impl Gate {
    /// The request that a response leads to, if this gate is to follow it.
    fn redirected(&self, copied: Copied, response: &Response) -> Option<Request> {
        let Redirects::Follow { to_others } = self.redirects else { return None };
        let from = copied.url().origin();
        let onward = copied.redirected(response.status(), response.headers())?;
        if !to_others && onward.url().origin() != from {
            let to = Origin::of(onward.url().as_str());
            tracing::warn!(%to, "not followed: the client's default headers may be credentials");
            return None;
        }
        Some(onward)
    }
}

impl Attempts {
    /// One more redirect is followed.
    fn redirected(&mut self) -> Result<(), Error> {
        if self.waited.redirects == REDIRECTS_MAX {
            return Err(Error::middleware(TooManyRedirects));
        }
        self.waited.redirects += 1;
        Ok(())
    }
}

/// All requests of a redirect chain together have the time that one had: the one before took some.
fn shorten(request: &mut Request, took: Nanos) {
    if let Some(timeout) = request.timeout_mut() {
        *timeout = timeout.saturating_sub(took.into());
    }
}

fn asked<'r>(method: &'r str, url: &'r Url, extensions: &'r Extensions) -> crate::Request<'r> {
    crate::Request {
        method,
        path: url.path(),
        origin: Origin::of(url.as_str()),
        group: extensions.get::<Group>().map_or("", Group::as_str),
        costs: extensions.get::<Costs>().copied().unwrap_or_default(),
    }
}

async fn acquire(
    attempts: &mut Attempts,
    request: &Request,
    extensions: &Extensions,
) -> Result<SendPermit, Refused> {
    attempts.acquire(&asked(request.method().as_str(), request.url(), extensions)).await
}

/// A permit for the request that an answer belongs to, where the client itself followed a redirect.
/// The one that was asked for counts as spent, as nobody knows what its own answer said.
fn exchange(
    gate: &Gate,
    permit: SendPermit,
    (copied, response): (&Copied, &Response),
    extensions: &Extensions,
    sent: Moment,
) -> SendPermit {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if !IS_TOLD.swap(true, Ordering::Relaxed) {
        let to = Origin::of(response.url().as_str());
        tracing::warn!(%to, "the client followed a redirect unseen: build it with Gate::client");
    }
    drop(permit);
    let method = copied.method().as_str();
    // Mostly that is what becomes of it.
    let method = if method == "POST" { "GET" } else { method };
    gate.permit_sent(&asked(method, response.url(), extensions), sent)
}

/// Learns from a response. Whether it refuses the request because of a limit.
async fn track(
    gate: &Gate,
    permit: SendPermit,
    response: Response,
) -> Result<(Response, bool), Error> {
    let status = response.status().as_u16();
    if !may_speak(gate.profile(), status) {
        let is_refused = settle(permit, &response, None);
        return Ok((response, is_refused));
    }
    let url = response.url().clone();
    let (parts, body) = http::Response::<Body>::from(response).into_parts();
    let (body, read) = Replayed::read(body).await;
    // The address is the one thing that such a response does not carry along by itself.
    let blank = http::Response::builder().url(url).body(()).map_err(Error::middleware)?;
    let mut whole = http::Response::from_parts(parts, Body::wrap(body));
    whole.extensions_mut().extend(blank.into_parts().0.extensions);
    let response = Response::from(whole);
    let is_refused = settle(permit, &response, read.as_deref());
    Ok((response, is_refused))
}

fn settle(permit: SendPermit, response: &Response, body: Option<&[u8]>) -> bool {
    let fields = response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    permit.track(crate::Response { status: response.status().as_u16(), fields, body })
}
