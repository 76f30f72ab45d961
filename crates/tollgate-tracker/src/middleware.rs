//! A middleware for reqwest.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use tollgate_tracker::{Costs, Gate, Profile};
//!
//! let gate = Gate::new(Profile::anthropic());
//! let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(gate).build();
//! let request = client.post("http://127.0.0.1/v1/messages").with_extension(Costs {
//!     input_tokens: 1_200,
//!     output_tokens: 500,
//!     ..Costs::default()
//! });
//! # drop(request);
//! # }
//! ```
//!
//! A [`Gate`] is the middleware, with its strategy. A request is tracked by its method and path.
//! What else matters travels in its extensions: [`Costs`] for what it costs, [`Group`] for what
//! keeps budgets apart. Who is refused finds a [`Refused`](crate::Refused) in the error's source.

use http::Extensions;
use reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{Error, Middleware, Next};

use crate::gate::{Gate, Pass};
use crate::replay::{Replayed, may_speak};
use crate::{Costs, Group};

#[async_trait::async_trait]
impl Middleware for Gate {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let mut pass = pass(self, &request, extensions).await?;
        pass.sent();
        let response = next.run(request, extensions).await?;
        track(self, pass, response).await
    }
}

async fn pass(gate: &Gate, request: &Request, extensions: &Extensions) -> Result<Pass, Error> {
    let asked = crate::Request {
        method: request.method().as_str(),
        path: request.url().path(),
        group: extensions.get::<Group>().map_or("", Group::as_str),
        costs: extensions.get::<Costs>().copied().unwrap_or_default(),
    };
    gate.pass(&asked).await.map_err(Error::middleware)
}

async fn track(gate: &Gate, pass: Pass, response: Response) -> Result<Response, Error> {
    let status = response.status().as_u16();
    if !may_speak(gate.profile(), status) {
        settle(pass, &response, None);
        return Ok(response);
    }
    let url = response.url().clone();
    let (parts, body) = http::Response::<Body>::from(response).into_parts();
    let (body, read) = Replayed::read(body).await;
    // The address is the one thing that such a response does not carry along by itself.
    let blank = http::Response::builder().url(url).body(()).map_err(Error::middleware)?;
    let mut whole = http::Response::from_parts(parts, Body::wrap(body));
    whole.extensions_mut().extend(blank.into_parts().0.extensions);
    let response = Response::from(whole);
    settle(pass, &response, read.as_deref());
    Ok(response)
}

fn settle(pass: Pass, response: &Response, body: Option<&[u8]>) {
    let fields = response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    pass.track(crate::Response { status: response.status().as_u16(), fields, body });
}
