//! Counters as they come: over HTTP, where the server sends them, or read from the control socket.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use ratekeeper_client::http::{HttpClient, HttpError, Place};
use ratekeeper_server::settings::ControlSetting;
use ratekeeper_server::stats::Stats;
use ratekeeper_server::{read_stats, with_causes};

use super::sse::next_event;
use super::view::{Key, Link};
use crate::error::Error;
use crate::source::Source;

/// How often a control socket is read.
const EVERY: Duration = Duration::from_secs(1);
/// A server sends its counters every second; if it does not for this long, it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long to wait before the first attempt to connect again. Each next one waits twice as long.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(8);

/// Where counters come from.
#[derive(Clone, Debug)]
pub(super) enum Feed {
    Http(Place),
    Control(PathBuf),
}

/// What a feed tells.
#[derive(Debug)]
pub(super) enum News {
    Stats(Box<Stats>),
    Link(Link),
    /// The person pressed one.
    Key(Key),
    /// The screen is to be drawn again.
    Redraw,
    /// The process is to end.
    Stop,
}

impl Feed {
    /// The feed that the arguments say, and its first counters. Refuses where nobody answers.
    pub(super) fn find(source: &Source) -> Result<(Self, Stats), Error> {
        match source {
            Source::Control(path) => Ok(Self::control(path)?),
            Source::Http(place) => Ok(Self::http(place.place()?)?),
            Source::Usual(place) => match Self::http(place.place()?) {
                Ok(found) => Ok(found),
                // The door may be closed; if the socket does not answer either, there is nobody.
                Err(error @ HttpError::Unreachable { .. }) => {
                    Self::control(&ControlSetting::usual_path()).map_err(|_| error.into())
                }
                Err(error) => Err(error.into()),
            },
        }
    }

    fn control(path: &Path) -> Result<(Self, Stats), ratekeeper_server::StatsError> {
        read_stats(path).map(|stats| (Self::Control(path.to_owned()), stats))
    }

    fn http(place: Place) -> Result<(Self, Stats), HttpError> {
        let stats = HttpClient::new(&place)?.get("/v1/stats")?;
        Ok((Self::Http(place), stats))
    }

    /// What to call it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Http(place) => place.url.to_string(),
            Self::Control(path) => path.display().to_string(),
        }
    }

    /// How counters come if all is well.
    pub(super) fn link(&self) -> Link {
        match self {
            Self::Http(_) => Link::Live,
            Self::Control(_) => Link::Polled,
        }
    }

    /// Tells what comes until nobody listens. `end` is never sent to; it closes.
    pub(super) fn run(&self, news: &SyncSender<News>, end: &Receiver<()>) {
        match self {
            Self::Http(place) => listen(place, news, end),
            Self::Control(path) => poll(path, news, end),
        }
    }
}

/// Whether to go on after a while.
fn wait(end: &Receiver<()>, time: Duration) -> bool {
    end.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

fn poll(path: &Path, news: &SyncSender<News>, end: &Receiver<()>) {
    while wait(end, EVERY) {
        let told = match read_stats(path) {
            Ok(stats) => tell(news, stats, Link::Polled),
            Err(error) => news.send(News::Link(Link::Lost(with_causes(&error)))).is_ok(),
        };
        if !told {
            return;
        }
    }
}

fn listen(place: &Place, news: &SyncSender<News>, end: &Receiver<()>) {
    let mut backoff = BACKOFF_MIN;
    loop {
        let (why, came) = match follow(place, news) {
            Ok(Some(came)) => ("the server closed the connection".to_owned(), came),
            Ok(None) => return,
            Err(error) => (with_causes(&error), false),
        };
        backoff = if came { BACKOFF_MIN } else { backoff };
        if news.send(News::Link(Link::Lost(why))).is_err() || !wait(end, backoff) {
            return;
        }
        backoff = backoff.saturating_mul(2).min(BACKOFF_MAX);
    }
}

/// Tells what one connection brings, and whether that was anything; nothing if nobody listens.
fn follow(place: &Place, news: &SyncSender<News>) -> Result<Option<bool>, HttpError> {
    let client = HttpClient::endless(place, SILENCE_MAX)?;
    let mut reader = BufReader::new(client.open("/v1/live")?);
    let mut came = false;
    // A connection that breaks has ended; what broke it shows when the next one is made.
    while let Ok(Some(data)) = next_event(&mut reader, "stats") {
        let Ok(stats) = serde_json::from_str(&data) else {
            return Err(client.strange_part("/v1/live", &data));
        };
        came = true;
        if !tell(news, stats, Link::Live) {
            return Ok(None);
        }
    }
    Ok(Some(came))
}

fn tell(news: &SyncSender<News>, stats: Stats, link: Link) -> bool {
    news.send(News::Link(link)).is_ok() && news.send(News::Stats(Box::new(stats))).is_ok()
}
