//! A layer for clients that are tower services over [`http::Request`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use http_body_util::Empty;
//! use ratekeeper_tracker::{Gate, Profile, TrackLayer};
//! use tower::{ServiceBuilder, ServiceExt as _, service_fn};
//!
//! // Your client stands here.
//! let client = service_fn(|_: http::Request<()>| async {
//!     Ok::<_, std::io::Error>(http::Response::new(Empty::<bytes::Bytes>::new()))
//! });
//! let gate = Gate::new(Profile::github());
//! let client = ServiceBuilder::new().layer(TrackLayer::new(&gate)).service(client);
//!
//! let request = http::Request::get("https://api.github.com/user").body(())?;
//! let response = client.oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! A request is tracked by its method, its path and where it goes. What else matters travels in its
//! extensions: [`Costs`] for what it costs, [`Group`] for what keeps budgets apart. The response has
//! [`Waited`](crate::Waited) among its extensions; for a refusal see
//! [`Refused::of`](crate::Refused::of).
//!
//! Each request of the service behind it asks the gate. So a layer that follows redirects, such as
//! that of tower-http, belongs in front of this one: then every hop asks.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http::request::Parts;
use http::uri::Authority;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::gate::{Attempts, Gate, Refused, SendPermit};
use crate::replay::{Replayed, may_speak};
use crate::{Costs, Group, Origin};

/// Has all requests of a service pass through a gate. Services made by it, and their clones, share
/// that gate.
#[derive(Clone, Debug)]
pub struct TrackLayer<C = SendOnce> {
    gate: Gate,
    bodies: PhantomData<C>,
}

impl TrackLayer {
    /// A layer in front of which the gate stands, with the gate's strategy. Every request is sent
    /// once: its body may be a stream.
    pub fn new(gate: &Gate) -> Self {
        Self { gate: gate.clone(), bodies: PhantomData }
    }

    /// Sends a request again that the API refused, as the gate's [`Retry`](crate::Retry) says. For
    /// bodies that can be cloned, and are for each request.
    #[must_use]
    pub fn retrying(self) -> TrackLayer<SendAgain> {
        TrackLayer { gate: self.gate, bodies: PhantomData }
    }
}

impl<S, C> Layer<S> for TrackLayer<C> {
    type Service = Track<S, C>;

    fn layer(&self, inner: S) -> Track<S, C> {
        Track { inner, gate: self.gate.clone(), bodies: PhantomData }
    }
}

/// Whether bodies are kept until there is an answer: [`SendOnce`] or [`SendAgain`].
pub trait KeepBody<B>: private::Sealed + 'static {
    /// A copy of a body, if one is kept.
    fn keep(body: &B) -> Option<B>;
}

/// Bodies are not kept.
#[derive(Clone, Copy, Debug)]
pub struct SendOnce;

/// Bodies are cloned.
#[derive(Clone, Copy, Debug)]
pub struct SendAgain;

impl<B> KeepBody<B> for SendOnce {
    fn keep(_: &B) -> Option<B> {
        None
    }
}

impl<B: Clone> KeepBody<B> for SendAgain {
    fn keep(body: &B) -> Option<B> {
        Some(body.clone())
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::SendOnce {}
    impl Sealed for super::SendAgain {}
}

/// A service whose requests pass through a gate.
///
/// It is ready when the service behind it is, since which limits apply is known only with the
/// request. The wait is in the response's future; drop it to leave the line.
#[derive(Clone, Debug)]
pub struct Track<S, C = SendOnce> {
    inner: S,
    gate: Gate,
    bodies: PhantomData<C>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum TrackError<E> {
    /// The request was not sent.
    #[error("the request was not sent")]
    Refused(#[from] Refused),
    /// The service behind failed.
    #[error("the request failed")]
    Failed(#[source] E),
}

impl<S, C, A, B> Service<Request<A>> for Track<S, C>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    C: KeepBody<A>,
    A: Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Send,
{
    type Response = Response<Replayed<B>>;
    type Error = TrackError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(TrackError::Failed)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let clone = self.inner.clone();
        // The one that said it was ready is the one to call.
        let inner = std::mem::replace(&mut self.inner, clone);
        let gate = self.gate.clone();
        let (head, body) = request.into_parts();
        Box::pin(send::<S, C, A, B>(inner, gate, head, body))
    }
}

/// Sends a request when it may be sent, and again if it is refused.
async fn send<S, C, A, B>(
    mut inner: S,
    gate: Gate,
    mut head: Parts,
    mut body: A,
) -> Result<Response<Replayed<B>>, TrackError<S::Error>>
where
    S: Service<Request<A>, Response = Response<B>>,
    C: KeepBody<A>,
    B: Body + Unpin,
{
    let mut attempts = Attempts::new(&gate);
    let mut refusal = None;
    loop {
        let mut permit = match acquire(&mut attempts, &head).await {
            Ok(permit) => permit,
            Err(refused) => return refusal.ok_or(TrackError::Refused(refused)),
        };
        if refusal.take().is_some() {
            attempts.waited.retries += 1;
            poll_fn(|context| inner.poll_ready(context)).await.map_err(TrackError::Failed)?;
        }
        let may_retry = attempts.may_retry(head.method.as_str());
        let kept = may_retry.then(|| C::keep(&body)).flatten().map(|body| (head.clone(), body));
        permit.sent();
        let request = Request::from_parts(head, body);
        let response = inner.call(request).await.map_err(TrackError::Failed)?;
        let (mut response, is_refused) = track(&gate, permit, response).await;
        response.extensions_mut().insert(attempts.waited);
        match kept.filter(|_| is_refused) {
            Some(kept) => (head, body) = kept,
            None => return Ok(response),
        }
        refusal = Some(response);
    }
}

async fn acquire(attempts: &mut Attempts, head: &Parts) -> Result<SendPermit, Refused> {
    let extensions = &head.extensions;
    let asked = crate::Request {
        method: head.method.as_str(),
        path: head.uri.path(),
        origin: origin(head),
        group: extensions.get::<Group>().map_or("", Group::as_str),
        costs: extensions.get::<Costs>().copied().unwrap_or_default(),
    };
    attempts.acquire(&asked).await
}

/// Where a request goes: by its address, or by the field `Host` where the address is only a path.
fn origin(head: &Parts) -> Origin<'_> {
    let host = || head.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let authority = head.uri.authority().map(Authority::as_str).or_else(host);
    Origin::new(head.uri.scheme_str().unwrap_or_default(), authority.unwrap_or_default())
}

/// Learns from a response. Whether it refuses the request because of a limit.
async fn track<B>(
    gate: &Gate,
    permit: SendPermit,
    response: Response<B>,
) -> (Response<Replayed<B>>, bool)
where
    B: Body + Unpin,
{
    let (parts, body) = response.into_parts();
    let status = parts.status.as_u16();
    let (body, read) = if may_speak(gate.profile(), status) {
        Replayed::read(body).await
    } else {
        (Replayed::untouched(body), None)
    };
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let is_refused = permit.track(crate::Response { status, fields, body: read.as_deref() });
    (Response::from_parts(parts, body), is_refused)
}

#[cfg(test)]
mod tests;
