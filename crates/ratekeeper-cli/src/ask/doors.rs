//! `ratekeeper ask udp|bucket|throttr|resp`: a client for each door, for people to try a server with.

pub(crate) mod args;

use ratekeeper::Nanos;
use ratekeeper_client::Server;
use ratekeeper_client::bucket::{BucketAnswer, BucketClient, BucketName};
use ratekeeper_client::resp::RespCommand;
use ratekeeper_client::throttr::ThrottrAsk;
use ratekeeper_client::udp::{UdpRequest, UdpVerdict};
use ratekeeper_console::{Format, Output, say};

use crate::error::{Error, Exit};

/// Which door is asked, and what.
#[derive(Debug)]
pub(crate) enum DoorAsk {
    Udp(UdpRequest),
    Bucket(BucketAsks),
    Throttr(ThrottrAsk, Format),
    Resp(RespCommand),
}

/// Asks, and says what was answered.
pub(crate) fn run(ask: &DoorAsk) -> Result<Exit, Error> {
    match ask {
        DoorAsk::Udp(request) => ask_udp(request),
        DoorAsk::Bucket(asks) => asks.run(),
        DoorAsk::Throttr(ask, format) => ask_throttr(ask, *format),
        DoorAsk::Resp(command) => ask_resp(command),
    }
}

fn ask_udp(request: &UdpRequest) -> Result<Exit, Error> {
    let answer = request.ask()?;
    let mut output = Output::stdout();
    output.bytes(&answer)?;
    output.bytes(b"\n")?;
    output.finish()?;
    let Some(verdict) = UdpVerdict::read(&answer) else { return Ok(Exit::Allowed) };
    say(&verdict.sentence);
    Ok(if verdict.is_over { Exit::Denied } else { Exit::Allowed })
}

/// What to ask of a token-bucket server, how often.
#[derive(Debug)]
pub(crate) struct BucketAsks {
    server: Server,
    timeout: Nanos,
    name: BucketName,
    /// How many tokens each ask takes; one, and in the words of old clients, if nothing is said.
    cost: Option<u64>,
    times: u64,
}

impl BucketAsks {
    /// Prints each answer as it comes.
    fn run(&self) -> Result<Exit, Error> {
        let mut client = BucketClient::open(&self.server, self.timeout, &self.name, self.cost)?;
        let mut output = Output::stdout();
        let (mut allowed, mut denied, mut last) = (0_u64, 0_u64, BucketAnswer::Nothing);
        for _ in 0..self.times {
            last = client.get()?;
            output.line(last.as_str())?;
            output.finish()?;
            if let Some(failure) = client.failure(last, &self.name) {
                return Err(failure.into());
            }
            *(if last == BucketAnswer::Token { &mut allowed } else { &mut denied }) += 1;
            if output.is_closed() {
                break;
            }
        }
        if self.times > 1 {
            say(format_args!("{allowed} allowed, {denied} denied"));
        }
        Ok(if last == BucketAnswer::Token { Exit::Allowed } else { Exit::Denied })
    }
}

fn ask_throttr(ask: &ThrottrAsk, format: Format) -> Result<Exit, Error> {
    let answer = ask.ask()?;
    let mut output = Output::stdout();
    match format {
        Format::Text => output.line(answer.describe())?,
        Format::Json => output.json(&answer)?,
    }
    output.finish()?;
    Ok(if answer.is_yes() { Exit::Allowed } else { Exit::Denied })
}

fn ask_resp(command: &RespCommand) -> Result<Exit, Error> {
    let reply = command.ask()?;
    let mut output = Output::stdout();
    output.line(&reply)?;
    output.finish()?;
    let Some(verdict) = command.verdict(&reply) else { return Ok(Exit::Allowed) };
    say(&verdict.sentence);
    Ok(if verdict.is_limited { Exit::Denied } else { Exit::Allowed })
}
