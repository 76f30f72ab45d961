//! From what is to be shown to a screen. Nothing here reads a clock or a socket.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState};
use tollgate::Nanos;
use tollgate_server::stats::{Configured, Rulings, Stats};

use super::view::{LimitLine, Link, Pace, Pane, View};
use crate::counted::{count, time};
use crate::table::shown;

const ALLOWED: Color = Color::Green;
const DENIED: Color = Color::Red;
const SHADOW: Color = Color::Yellow;

/// How high the boxes below the limits are.
const IDS_HEIGHT: u16 = 9;
const DOORS_HEIGHT: u16 = 7;
/// How wide the small charts are, and what one bar is of. Together they are the last minute.
const CHART_WIDTH: u16 = 20;
const SECONDS_PER_BAR: usize = 3;

const HELP: &str = " q, Ctrl-C   quit
 up, down    move, also with k and j
 g, G        to the first, to the last
 Tab         to the next box
 /           show only limits whose name has this in it; Enter keeps it, Esc shows all
 ?           this help; any key closes it";

/// Draws all of it.
pub(super) fn draw(view: &View, frame: &mut Frame<'_>) {
    let notice = notice(view);
    let [head, told, limits, ids, below, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(u16::from(notice.is_some())),
        Constraint::Min(4),
        Constraint::Length(IDS_HEIGHT),
        Constraint::Length(DOORS_HEIGHT),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines(view)), head);
    if let Some(line) = notice {
        frame.render_widget(Paragraph::new(line), told);
    }
    draw_limits(view, frame, limits);
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
    let [busiest, most_denied] = halves.areas(ids);
    draw_ids(view, Pane::Busiest, frame, busiest);
    draw_ids(view, Pane::MostDenied, frame, most_denied);
    let [doors, stores] =
        Layout::horizontal([Constraint::Fill(4), Constraint::Fill(3)]).areas(below);
    if let Some(stats) = &view.stats {
        draw_doors(stats, frame, doors);
        draw_stores(stats, frame, stores);
    }
    frame.render_widget(Paragraph::new(foot_line(view)), foot);
    if view.is_helping {
        draw_help(frame);
    }
}

/// What the person should know before anything else, if there is such a thing.
fn notice(view: &View) -> Option<Line<'static>> {
    let sentence = view.stats.as_ref()?.pressure.as_ref()?;
    Some(Line::from(shown(sentence)).fg(DENIED))
}

fn head_lines(view: &View) -> Vec<Line<'_>> {
    let link = match &view.link {
        Link::Live => "live".fg(ALLOWED),
        Link::Polled => "read every second".fg(ALLOWED),
        Link::Lost(why) => format!("lost: {}", shown(why)).fg(DENIED),
    };
    let Some(stats) = &view.stats else {
        return vec![Line::from(vec![format!("tollgate at {}  ", view.source).into(), link])];
    };
    let uptime = Nanos::from_secs(stats.uptime_secs);
    let ready = if stats.ready { "" } else { "  NOT READY" };
    let name = format!("tollgate {} at {}  up {uptime}{ready}  ", stats.version, view.source);
    let Pace { allowed, denied, shadow, .. } = &view.whole;
    let paces = vec![
        format!("{} allowed/s", rate(*allowed)).fg(ALLOWED),
        format!("  {} denied/s", rate(*denied)).fg(DENIED),
        format!("  {} shadow/s", rate(*shadow)).fg(SHADOW),
        format!("  {}", chart(&view.whole)).into(),
    ];
    vec![
        Line::from(vec![name.bold(), link]),
        configured(&stats.configured).into(),
        Line::from(paces),
    ]
}

/// `8 limits, 2 overrides in files, 1 at run time; kept in /var/lib/tollgate; limits.yaml`
fn configured(it: &Configured) -> String {
    let kept = match &it.state {
        Some(folder) => format!("kept in {}", shown(folder)),
        None => "kept in memory only".to_owned(),
    };
    let Configured { limits, overrides_in_files, overrides_at_run_time, files, .. } = it;
    let overrides =
        format!("{overrides_in_files} overrides in files, {overrides_at_run_time} at run time");
    format!("{limits} limits, {overrides}; {kept}; {}", shown(&files.join(", ")))
}

fn draw_limits(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let lines = view.limits();
    let is_all = view.filter.is_empty();
    let title = if is_all { "limits".to_owned() } else { format!("limits with `{}`", view.filter) };
    let head = [
        "limit",
        "allowed/s",
        "denied/s",
        "shadow/s",
        "allowed",
        "denied",
        "shadow",
        "last minute",
    ];
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(CHART_WIDTH),
    ];
    let rows = lines.iter().map(limit_row);
    let table = Table::new(rows, widths).header(head_row(head));
    draw_table(view, Pane::Limits, &title, table, frame, area);
}

fn limit_row<'a>(line: &LimitLine<'a>) -> Row<'a> {
    let Rulings { allowed, denied, shadow } = line.total;
    let none = Pace::default();
    let pace = line.pace.unwrap_or(&none);
    let number = |text: String, color: Color| Line::from(Span::styled(text, color)).right_aligned();
    Row::new([
        Line::from(shown(line.name)),
        number(rate(pace.allowed), ALLOWED),
        number(rate(pace.denied), DENIED),
        number(rate(pace.shadow), SHADOW),
        Line::from(allowed.to_string()).right_aligned(),
        Line::from(denied.to_string()).right_aligned(),
        Line::from(shadow.to_string()).right_aligned(),
        Line::from(chart(pace)),
    ])
}

fn draw_ids(view: &View, pane: Pane, frame: &mut Frame<'_>, area: Rect) {
    let (title, counted) =
        if pane == Pane::Busiest { ("busiest", "asks") } else { ("most denied", "denied") };
    let rows = view.ids(pane).into_iter().map(|busy| {
        let words = [shown(&busy.limit), shown(&busy.id)].map(Line::from);
        let [limit, id] = words;
        Row::new([limit, id, Line::from(count(busy)).right_aligned()])
    });
    let widths = [Constraint::Fill(2), Constraint::Fill(2), Constraint::Length(15)];
    let table = Table::new(rows, widths).header(head_row(["limit", "id", counted]));
    draw_table(view, pane, title, table, frame, area);
}

/// A table in a box; the one that the eye is in has a line that is marked.
fn draw_table(
    view: &View,
    pane: Pane,
    title: &str,
    table: Table<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let is_here = view.pane == pane;
    let block = titled(title);
    let block = if is_here { block.border_style(Modifier::BOLD) } else { block.dim() };
    let table = table.block(block).row_highlight_style(Modifier::REVERSED);
    let mut state = TableState::new().with_selected(is_here.then_some(view.line));
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_doors(stats: &Stats, frame: &mut Frame<'_>, area: Rect) {
    let rows = stats.doors.iter().map(|(name, door)| {
        let counts = [door.counts.requests, door.counts.denied, door.counts.connections];
        let counts = counts.map(|count| Line::from(count.to_string()).right_aligned());
        let words = [name.clone(), door.address.to_string()].map(Line::from);
        let p99 = Line::from(time(door.latency.p99_us, door.counts.requests)).right_aligned();
        Row::new(words.into_iter().chain(counts).chain([p99]).collect::<Vec<_>>())
    });
    let widths = [
        Constraint::Length(7),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
    ];
    let head = head_row(["door", "address", "requests", "denied", "open", "p99"]);
    frame.render_widget(Table::new(rows, widths).header(head).block(titled("doors")), area);
}

fn draw_stores(stats: &Stats, frame: &mut Frame<'_>, area: Rect) {
    let rows = stats.stores.iter().map(|(name, store)| {
        let share = (store.bytes.saturating_mul(100)).checked_div(store.bytes_max).unwrap_or(0);
        let words = [
            store.keys.to_string(),
            format!("{share} %"),
            store.evicted.to_string(),
            store.turned_away.to_string(),
        ];
        let words = words.map(|word| Line::from(word).right_aligned());
        Row::new(std::iter::once(Line::from(name.clone())).chain(words).collect::<Vec<_>>())
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Length(11),
    ];
    let head = head_row(["store", "keys", "full", "evicted", "turned away"]);
    let title = match stats.shared.as_ref().map(|shared| shared.up) {
        None => "stores",
        Some(true) => "stores, shared",
        Some(false) => "stores; the shared one is AWAY",
    };
    frame.render_widget(Table::new(rows, widths).header(head).block(titled(title)), area);
}

fn foot_line(view: &View) -> Line<'_> {
    if view.is_typing {
        return Line::from(format!("/{}\u{2588}", view.filter));
    }
    let words = "q quit  Tab next box  up/down move  / filter  ? help";
    Line::styled(words, Style::new().add_modifier(Modifier::DIM))
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines = u16::try_from(HELP.lines().count()).unwrap_or(u16::MAX);
    let width = HELP.lines().map(str::len).max().unwrap_or(0);
    let whole = frame.area();
    let height = lines.saturating_add(2).min(whole.height);
    let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(3).min(whole.width);
    let x = (whole.width - width) / 2;
    let y = (whole.height - height) / 2;
    let area = Rect::new(x, y, width, height);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(titled("keys")), area);
}

fn titled(title: &str) -> Block<'_> {
    Block::bordered().title(format!(" {title} "))
}

/// The first columns are words, to the left; where numbers are, they are to the right.
fn head_row<const N: usize>(words: [&'static str; N]) -> Row<'static> {
    const LEFT: [&str; 6] = ["limit", "id", "door", "address", "store", "last minute"];
    let line = |word: &'static str| {
        let line = Line::from(word);
        if LEFT.contains(&word) { line } else { line.right_aligned() }
    };
    Row::new(words.map(line)).style(Modifier::UNDERLINED)
}

/// A number per second with about three digits.
fn rate(per_second: f64) -> String {
    match per_second {
        it if it < 0.05 => "0".to_owned(),
        it if it < 10.0 => format!("{it:.1}"),
        it if it < 10_000.0 => format!("{it:.0}"),
        it if it < 10_000_000.0 => format!("{:.0}k", it / 1e3),
        it => format!("{:.0}M", it / 1e6),
    }
}

/// Each bar is the busiest of a few seconds, the newest to the right; the highest has the full
/// height.
fn chart(pace: &Pace) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest_of = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let history: Vec<f64> = pace.history.iter().copied().collect();
    let highest = highest_of(&history);
    let bar = |value: f64| {
        let height = if highest > 0.0 { (value / highest * 8.0).ceil() } else { 0.0 };
        // A height is at most 8, so this finds it exactly.
        BARS.iter().zip(0_u8..).find(|(_, step)| f64::from(*step) >= height).map_or(' ', |it| *it.0)
    };
    let values = history.rchunks(SECONDS_PER_BAR).rev().map(highest_of);
    let bars: String = values.map(bar).collect();
    format!("{bars:>width$}", width = usize::from(CHART_WIDTH))
}
