//! The terminal: taken for as long as the view is shown, and given back however that ends.
//!
//! Keys are read on a thread of their own. What reads them never returns once the terminal is gone,
//! and takes a core for that; so the loop that draws asks the system whether it is still there, and
//! hears signals whatever that thread does.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::disable_raw_mode;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::draw::draw;
use super::feed::News;
use super::view::{Key, View};
use crate::error::Exit;

/// How long to wait for news before looking whether the terminal is still there.
const NEWS_WAIT: Duration = Duration::from_millis(100);
/// How long after a signal the process ends even if its screen is not given back: a terminal that
/// is stopped takes no more frames, and whoever draws one waits for it.
const END_WAIT: Duration = Duration::from_secs(1);

/// The terminal, which is as it was when this is dropped. A panic gives it back before it says why.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows what comes, until the person or a signal ends it, or the terminal is gone.
pub(super) fn run(view: &mut View, news: &Receiver<News>) -> io::Result<()> {
    let mut screen = Screen(ratatui::try_init()?);
    let keyboard = Keyboard::open()?;
    let shown = show(&mut screen, &keyboard, view, news);
    if keyboard.is_gone() {
        // There is nothing to give back. Trying would be told on that terminal, which panics.
        std::mem::forget(screen);
        return Ok(());
    }
    shown
}

fn show(
    screen: &mut Screen,
    keyboard: &Keyboard,
    view: &mut View,
    news: &Receiver<News>,
) -> io::Result<()> {
    while !view.is_over && !keyboard.is_gone() {
        screen.0.draw(|frame| draw(view, frame))?;
        match news.recv_timeout(NEWS_WAIT) {
            Ok(one) => take(view, one),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => view.is_over = true,
        }
        // Whatever waits is seen in one frame.
        for one in news.try_iter() {
            take(view, one);
        }
    }
    Ok(())
}

fn take(view: &mut View, news: News) {
    match news {
        News::Stats(stats) => view.take(*stats),
        News::Link(link) => view.link = link,
        News::Key(key) => view.press(key),
        News::Redraw => {}
        News::Stop => view.is_over = true,
    }
}

/// What keys are read from: standard input, else the terminal that the process belongs to.
enum Keyboard {
    Input(io::Stdin),
    Terminal(File),
}

impl Keyboard {
    fn open() -> io::Result<Self> {
        let input = io::stdin();
        if input.is_terminal() {
            return Ok(Self::Input(input));
        }
        File::open("/dev/tty").map(Self::Terminal)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Input(input) => input.as_fd(),
            Self::Terminal(file) => file.as_fd(),
        }
    }

    /// Whether nobody is at the other end any more.
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(self.fd(), PollFlags::empty())];
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        poll(&mut fds, PollTimeout::ZERO).is_ok()
            && fds[0].revents().is_some_and(|events| events.intersects(gone))
    }
}

/// Tells the keys that are pressed. Never returns once the terminal is gone.
pub(super) fn read_keys(news: &SyncSender<News>) {
    while let Ok(event) = event::read() {
        let told = match event {
            Event::Key(key) => key_of(key).map(News::Key),
            // Such as another size.
            _ => Some(News::Redraw),
        };
        if told.is_some_and(|told| news.send(told).is_err()) {
            return;
        }
    }
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

/// Tells when the process is to end, and sees to it that it does. Drops `listening` when it hears
/// signals.
pub(super) fn wait_for_signal(news: &SyncSender<News>, listening: Sender<()>) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    // Without this thread a signal ends the process as it does others.
    let Ok(runtime) = runtime else { return };
    if runtime.block_on(signalled(listening)).is_err() {
        return;
    }
    runtime.block_on(async {
        let news = news.clone();
        // Where there is no room for it, it waits until there is.
        let _told = tokio::task::spawn_blocking(move || news.send(News::Stop));
        tokio::time::sleep(END_WAIT).await;
        let _ = disable_raw_mode();
        #[expect(clippy::exit, reason = "the thread that draws may never return")]
        process::exit(Exit::Allowed as i32);
    });
}

async fn signalled(listening: Sender<()>) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    drop(listening);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
        _ = quit.recv() => {}
    }
    Ok(())
}
