//! The terminal: taken for as long as the view is shown, and given back however that ends.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::draw::draw;
use super::feed::News;
use super::view::{Key, View};

/// How long to wait for a key before looking for news.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// The terminal, which is as it was when this is dropped. A panic gives it back before it says why.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows what comes, until the person or a signal ends it.
pub(super) fn run(view: &mut View, news: &Receiver<News>) -> io::Result<()> {
    let mut screen = Screen(ratatui::try_init()?);
    while !view.is_over {
        screen.0.draw(|frame| draw(view, frame))?;
        if event::poll(KEY_WAIT)? {
            // Anything else, such as another size, is seen in the next frame.
            if let Event::Key(key) = event::read()?
                && let Some(key) = key_of(key)
            {
                view.press(key);
            }
        }
        take_all(view, news);
    }
    Ok(())
}

fn take_all(view: &mut View, news: &Receiver<News>) {
    loop {
        match news.try_recv() {
            Ok(News::Stats(stats)) => view.take(*stats),
            Ok(News::Link(link)) => view.link = link,
            Ok(News::Stop) | Err(TryRecvError::Disconnected) => {
                view.is_over = true;
                return;
            }
            Err(TryRecvError::Empty) => return,
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

/// Tells when the process is to end.
pub(super) fn wait_for_signal(news: &SyncSender<News>) {
    let wait = async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut quit = signal(SignalKind::quit())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
        io::Result::Ok(())
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    // Without this thread a signal ends the process as it does others.
    if runtime.and_then(|runtime| runtime.block_on(wait)).is_ok() {
        let _ = news.send(News::Stop);
    }
}
