//! From what is to be shown to a screen. Nothing here reads a clock or a socket.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Table, TableState};
use ratekeeper_console::shown;
use ratekeeper_server::stats::{Configured, Rulings, Stats, Store};

use super::view::{LimitLine, Link, Pace, Pane, View};
use crate::counted::{count, so_far, time};

const ALLOWED: Color = Color::Green;
const DENIED: Color = Color::Red;
const SHADOW: Color = Color::Yellow;

/// Below this width the boxes stand above each other, and only what matters most is in them.
const WIDE: u16 = 106;
/// How high the boxes of ids are at least and at most, with their head.
const IDS_HEIGHT_MIN: u16 = 4;
const IDS_HEIGHT_MAX: u16 = 13;
/// How high the box of the limits is at least.
const LIMITS_HEIGHT_MIN: u16 = 5;
/// How wide the small charts are, and what one bar is of. Together they are the last minute.
const CHART_WIDTH: u16 = 20;
const SECONDS_PER_BAR: usize = 3;
const LAST_MINUTE: &str = "last minute";

/// The columns of the limits.
const NAME: Constraint = Constraint::Fill(1);
const PACE: Constraint = Constraint::Length(9);
const TOTAL: Constraint = Constraint::Length(10);
const CHART: Constraint = Constraint::Length(CHART_WIDTH);

const HELP: &str = " q, Ctrl-C   quit
 up, down    move, also with k and j
 g, G        to the first, to the last
 Tab         to the next box
 /           show only limits whose name has this in it; Enter keeps it, Esc shows all
 ?           this help; any key closes it";

/// Where everything is. Every box is as high as what is in it, and the limits have the rest.
struct Areas {
    head: Rect,
    notices: Rect,
    limits: Rect,
    ids: Rect,
    below: Rect,
    stores: Rect,
    foot: Rect,
}

impl Areas {
    fn new(view: &View, whole: Rect) -> Self {
        let is_wide = is_wide(whole);
        let notices = rows(notices(view, whole.width).len());
        let (doors, stores) = view
            .stats
            .as_ref()
            .map_or((0, 0), |stats| (rows(stats.doors.len()), rows(stats.stores.len())));
        // A box has its title, its head and its foot; a narrow one has no foot.
        let (frame, below, stores) =
            if is_wide { (3, doors.max(stores), 0) } else { (2, doors, u16::from(stores > 0)) };
        let ids = [Pane::Busiest, Pane::MostDenied].map(|pane| rows(view.ids(pane).len()));
        let fixed = 3 + notices + below.saturating_add(frame) + stores + 1;
        let rest = whole.height.saturating_sub(fixed);
        // What the limits do not need, up to a half, is for ids.
        let ids = ids[0].max(ids[1]).saturating_add(frame).min(rest / 2);
        let ids = ids.clamp(IDS_HEIGHT_MIN, IDS_HEIGHT_MAX);
        let [head, notices, limits, ids, below, stores, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(notices),
            Constraint::Min(LIMITS_HEIGHT_MIN),
            Constraint::Length(ids),
            Constraint::Length(below.saturating_add(frame)),
            Constraint::Length(stores),
            Constraint::Length(1),
        ])
        .areas(whole);
        Self { head, notices, limits, ids, below, stores, foot }
    }
}

fn is_wide(area: Rect) -> bool {
    area.width >= WIDE
}

fn rows(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Draws all of it.
pub(super) fn draw(view: &View, frame: &mut Frame<'_>) {
    let areas = Areas::new(view, frame.area());
    frame.render_widget(Paragraph::new(head_lines(view)), areas.head);
    frame.render_widget(Paragraph::new(notices(view, areas.notices.width)), areas.notices);
    draw_limits(view, frame, areas.limits);
    if is_wide(frame.area()) {
        draw_wide(view, frame, &areas);
    } else {
        draw_narrow(view, frame, &areas);
    }
    frame.render_widget(Paragraph::new(foot_line(view)), areas.foot);
    if view.is_helping {
        draw_help(frame);
    }
}

fn draw_wide(view: &View, frame: &mut Frame<'_>, areas: &Areas) {
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
    let [busiest, most_denied] = halves.areas(areas.ids);
    draw_ids(view, Pane::Busiest, "busiest", frame, busiest);
    draw_ids(view, Pane::MostDenied, "most denied", frame, most_denied);
    let Some(stats) = &view.stats else { return };
    let parts = Layout::horizontal([Constraint::Fill(4), Constraint::Fill(3)]);
    let [doors, stores] = parts.areas(areas.below);
    draw_doors(stats, frame, doors);
    draw_stores(stats, frame, stores);
}

/// Of the two lists of ids there is one, and the stores are a line.
fn draw_narrow(view: &View, frame: &mut Frame<'_>, areas: &Areas) {
    let (pane, title) = match view.pane {
        Pane::MostDenied => (Pane::MostDenied, "most denied; Tab for the limits"),
        Pane::Busiest => (Pane::Busiest, "busiest; Tab for the most denied"),
        Pane::Limits => (Pane::Busiest, "busiest"),
    };
    draw_ids(view, pane, title, frame, areas.ids);
    let Some(stats) = &view.stats else { return };
    draw_doors(stats, frame, areas.below);
    frame.render_widget(Paragraph::new(stores_line(stats)), areas.stores);
}

/// Warnings that stand above everything else, in as many lines as they need.
fn notices(view: &View, width: u16) -> Vec<Line<'static>> {
    let Some(stats) = &view.stats else { return Vec::new() };
    let away = stats.shared.as_ref().and_then(|shared| {
        let (why, since) = (shared.why.as_ref()?, so_far(shared.down_secs?));
        Some(format!("the shared store is away for {since}: {}", shown(why)))
    });
    let pressure = stats.pressure.as_deref().map(shown);
    let lines = away.into_iter().chain(pressure).flat_map(|text| wrapped(&text, width));
    lines.map(|text| Line::from(text).fg(DENIED)).collect()
}

/// The text in lines of at most so many columns, if none of its words is longer.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if Line::from(format!("{line} {word}")).width() <= width.into() => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn head_lines(view: &View) -> Vec<Line<'_>> {
    let link = match &view.link {
        Link::Live => "live".fg(ALLOWED),
        Link::Polled => "read every second".fg(ALLOWED),
        Link::Lost(why) => format!("lost: {}", shown(why)).fg(DENIED),
    };
    let Some(stats) = &view.stats else {
        return vec![Line::from(vec![format!("ratekeeper at {}  ", view.source).into(), link])];
    };
    let uptime = so_far(stats.uptime_secs);
    let ready = if stats.ready { "" } else { "  NOT READY" };
    let name = format!("ratekeeper {} at {}  up {uptime}{ready}  ", stats.version, view.source);
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

/// `8 limits, 2 overrides in files, 1 at run time; kept in /var/lib/ratekeeper; limits.yaml`
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
    let rows = lines.iter();
    let table = if is_wide(area) {
        let head = head_row([
            "limit",
            "allowed/s",
            "denied/s",
            "shadow/s",
            "allowed",
            "denied",
            "shadow",
            LAST_MINUTE,
        ]);
        let widths = [NAME, PACE, PACE, PACE, TOTAL, TOTAL, TOTAL, CHART];
        Table::new(rows.map(|line| Row::new(limit_cells(line))), widths).header(head)
    } else {
        // Where there is no room for all columns, the totals are left out.
        let head = head_row(["limit", "allowed/s", "denied/s", "shadow/s", LAST_MINUTE]);
        let cells = |line| {
            let [name, allowed, denied, shadow, _, _, _, chart] = limit_cells(line);
            Row::new([name, allowed, denied, shadow, chart])
        };
        Table::new(rows.map(cells), [NAME, PACE, PACE, PACE, CHART]).header(head)
    };
    draw_table(view, Pane::Limits, &title, table, frame, area);
}

fn limit_cells<'a>(line: &LimitLine<'a>) -> [Line<'a>; 8] {
    let Rulings { allowed, denied, shadow } = line.total;
    let none = Pace::default();
    let pace = line.pace.unwrap_or(&none);
    let number = |text: String, color: Color| Line::from(Span::styled(text, color)).right_aligned();
    [
        Line::from(shown(line.name)),
        number(rate(pace.allowed), ALLOWED),
        number(rate(pace.denied), DENIED),
        number(rate(pace.shadow), SHADOW),
        Line::from(allowed.to_string()).right_aligned(),
        Line::from(denied.to_string()).right_aligned(),
        Line::from(shadow.to_string()).right_aligned(),
        Line::from(chart(pace)),
    ]
}

fn draw_ids(view: &View, pane: Pane, title: &str, frame: &mut Frame<'_>, area: Rect) {
    let counted = if pane == Pane::Busiest { "asks" } else { "denied" };
    let rows = view.ids(pane).into_iter().map(|busy| {
        let words = [shown(&busy.limit), shown(&busy.id)].map(Line::from);
        let [limit, id] = words;
        Row::new([limit, id, Line::from(count(busy)).right_aligned()])
    });
    let widths = [Constraint::Fill(3), Constraint::Fill(2), Constraint::Length(15)];
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
    let block = titled(title, frame);
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
    frame.render_widget(Table::new(rows, widths).header(head).block(titled("doors", frame)), area);
}

fn draw_stores(stats: &Stats, frame: &mut Frame<'_>, area: Rect) {
    let rows = stats.stores.iter().map(|(name, store)| {
        let words = [
            store.keys.to_string(),
            fill(store),
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
    frame.render_widget(Table::new(rows, widths).header(head).block(titled(title, frame)), area);
}

/// `stores: limits 12 keys 50 %, quotas ..`
fn stores_line(stats: &Stats) -> Line<'static> {
    let one = |(name, store): (&String, &Store)| {
        format!("{} {} keys {}", shown(name), store.keys, fill(store))
    };
    let stores: Vec<String> = stats.stores.iter().map(one).collect();
    let title = if stats.shared.is_some() { "stores, shared" } else { "stores" };
    Line::from(format!("{title}: {}", stores.join(", ")))
}

fn fill(store: &Store) -> String {
    let share = store.bytes.saturating_mul(100).checked_div(store.bytes_max).unwrap_or(0);
    format!("{share} %")
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
    frame.render_widget(Paragraph::new(HELP).block(boxed("keys")), area);
}

/// A box, or where there is little room only the line above it.
fn titled<'a>(title: &str, frame: &Frame<'_>) -> Block<'a> {
    if is_wide(frame.area()) { boxed(title) } else { boxed(title).borders(Borders::TOP) }
}

fn boxed<'a>(title: &str) -> Block<'a> {
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
