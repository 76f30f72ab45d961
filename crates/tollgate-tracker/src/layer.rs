//! A layer for clients that are tower services over [`http::Request`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use http_body_util::Empty;
//! use tollgate_tracker::{Gate, Profile, TrackLayer};
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
//! A request is tracked by its method and path. What else matters travels in its extensions:
//! [`Costs`] for what it costs, [`Group`] for what keeps budgets apart.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::gate::{Gate, Pass, Refused};
use crate::replay::{Replayed, may_speak};
use crate::{Costs, Group};

/// Has all requests of a service pass through a gate. Services made by it, and their clones, share
/// that gate.
#[derive(Clone, Debug)]
pub struct TrackLayer {
    gate: Gate,
}

impl TrackLayer {
    /// A layer in front of which the gate stands, with the gate's strategy.
    pub fn new(gate: &Gate) -> Self {
        Self { gate: gate.clone() }
    }
}

impl<S> Layer<S> for TrackLayer {
    type Service = Track<S>;

    fn layer(&self, inner: S) -> Track<S> {
        Track { inner, gate: self.gate.clone() }
    }
}

/// A service whose requests pass through a gate.
///
/// It is ready when the service behind it is, since which limits apply is known only with the
/// request. The wait is in the response's future; drop it to leave the line.
#[derive(Clone, Debug)]
pub struct Track<S> {
    inner: S,
    gate: Gate,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum TrackError<E> {
    /// The request was not sent.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The service behind failed.
    #[error("the request failed")]
    Failed(#[source] E),
}

impl<S, A, B> Service<Request<A>> for Track<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    A: Send + 'static,
    B: Body + Unpin + Send,
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
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let gate = self.gate.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let mut pass = pass(&gate, &head).await?;
            pass.sent();
            let request = Request::from_parts(head, body);
            let response = inner.call(request).await.map_err(TrackError::Failed)?;
            Ok(track(&gate, pass, response).await)
        })
    }
}

async fn pass(gate: &Gate, head: &Parts) -> Result<Pass, Refused> {
    let extensions = &head.extensions;
    let asked = crate::Request {
        method: head.method.as_str(),
        path: head.uri.path(),
        group: extensions.get::<Group>().map_or("", Group::as_str),
        costs: extensions.get::<Costs>().copied().unwrap_or_default(),
    };
    gate.pass(&asked).await
}

async fn track<B>(gate: &Gate, pass: Pass, response: Response<B>) -> Response<Replayed<B>>
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
    pass.track(crate::Response { status, fields, body: read.as_deref() });
    Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests;
