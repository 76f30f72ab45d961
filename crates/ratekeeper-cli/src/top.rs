//! `ratekeeper top`: what a server decides, as it happens.

mod draw;
mod feed;
mod screen;
mod sse;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::error::{Error, Exit};
use crate::source::Source;
use feed::{Feed, News};
use ratekeeper_console::Output;
use view::View;

/// How wide and high a frame is that nobody looks at.
const ONCE_WIDTH: u16 = 120;
const ONCE_HEIGHT: u16 = 40;
/// How long a single frame waits for the second reading, without which nothing is per second.
const ONCE_WAIT: Duration = Duration::from_secs(3);
/// How much news may wait for the screen.
const NEWS_MAX: usize = 16;

/// Shows the counters until the person has seen enough; or one frame of them.
pub(crate) fn run(source: &Source, is_once: bool) -> Result<Exit, Error> {
    if !is_once && !std::io::stdout().is_terminal() {
        return Err(Error::NoTerminal);
    }
    let (feed, stats) = Feed::find(source)?;
    let mut view = View::new(feed.name(), feed.link());
    view.take(stats);
    let (news, _end) = start(feed, is_once)?;
    if is_once {
        return print_once(view, &news);
    }
    screen::run(&mut view, &news).map_err(Error::Terminal)?;
    Ok(Exit::Allowed)
}

/// Lets the feed run beside the screen. What is returned second ends it when it is dropped.
fn start(feed: Feed, is_once: bool) -> Result<(Receiver<News>, Sender<()>), Error> {
    let (sender, news) = sync_channel(NEWS_MAX);
    let (end, ended) = channel();
    let (signals, keys) = (sender.clone(), sender.clone());
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(Error::Terminal)
    };
    spawn("feed", Box::new(move || feed.run(&sender, &ended)))?;
    let (listening, listens) = channel();
    spawn("signals", Box::new(move || screen::wait_for_signal(&signals, listening)))?;
    // Nothing is drawn before signals are heard: one that comes with the first frame must give the
    // screen back. This returns when the thread drops its sender.
    let _closed = listens.recv();
    if !is_once {
        spawn("keys", Box::new(move || screen::read_keys(&keys)))?;
    }
    Ok((news, end))
}

/// One frame, as plain text.
fn print_once(mut view: View, news: &Receiver<News>) -> Result<Exit, Error> {
    // The first that comes may be what was read already; the pace is in the second.
    while let Ok(News::Link(_) | News::Stats(_)) = take_one(&mut view, news)
        && view.whole.history.is_empty()
    {}
    let mut output = Output::stdout();
    output.text(&plain(&view, ONCE_WIDTH, ONCE_HEIGHT))?;
    output.finish()?;
    Ok(Exit::Allowed)
}

fn take_one(view: &mut View, news: &Receiver<News>) -> Result<News, ()> {
    let one = news.recv_timeout(ONCE_WAIT).map_err(|_| ())?;
    match &one {
        News::Stats(stats) => view.take((**stats).clone()),
        News::Link(link) => view.link = link.clone(),
        News::Key(_) | News::Redraw | News::Stop => {}
    }
    Ok(one)
}

/// A frame as text, without colours.
fn plain(view: &View, width: u16, height: u16) -> String {
    let drawn = Terminal::new(TestBackend::new(width, height)).and_then(|mut terminal| {
        terminal.draw(|frame| draw::draw(view, frame))?;
        Ok(terminal.backend().buffer().clone())
    });
    // Writing to memory does not fail.
    let Ok(buffer) = drawn else { return String::new() };
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(width)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
