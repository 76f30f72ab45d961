//! A server on this machine that stands for the API, so that the examples run anywhere.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Error, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Answers requests until it is dropped.
pub(crate) struct Local {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Local {
    pub(crate) async fn start<F>(answer: F) -> std::io::Result<Self>
    where
        F: Fn(&Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::new(answer)));
        Ok(Self { address, _tasks: tasks })
    }
}

async fn serve<F>(listener: TcpListener, answer: Arc<F>)
where
    F: Fn(&Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync + 'static,
{
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // An answer is small; without this it may wait for one that was asked before.
        let _ = stream.set_nodelay(true);
        let answer = Arc::clone(&answer);
        connections.spawn(async move {
            let service = service_fn(async |request: Request<Incoming>| {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                Ok::<_, Error>(answer(&Request::from_parts(head, body)))
            });
            let http = hyper::server::conn::http1::Builder::new();
            // A client that goes away is no error.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
