//! The arguments of `ratekeeper replay` as they are typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ratekeeper_protocol::throttr::Options;

use super::Replay;
use crate::args::RawFiles;
use crate::files::Files;

pub(crate) const REPLAY_HELP: &str = "\
Time is what each line says it is, so a replay takes no longer than the arithmetic, and the same
input always gives the same output.

EXAMPLES
  ratekeeper replay limits --limits limits.yaml < asks.jsonl > answers.jsonl
  ratekeeper replay udp --rules rules.yaml < datagrams.tsv > answers.tsv";

const LIMITS_HELP: &str = r#"INPUT
  {"at":0,"op":"spend","limit":"NewOrdersPerAccount","id":"12345678","cost":1}
      `at`    nanoseconds since an epoch of your choice; it may step backwards
      `op`    spend, check, refund or reset
      `id`    a string or a whole number
      `cost`  a whole number of tokens; 1 if left out
  {"at":0,"op":"transaction","asks":[{"limit":"..","id":"..","cost":1,"mode":"check-and-spend"}]}
      `mode`  check-and-spend, check-only or spend-only; the first if left out
  {"at":0,"op":"reload","limits":"new.yaml","overrides":"new-overrides.yaml"}

OUTPUT
  {"allowed":true,"shadow":false,"remaining":299,"retry_in":0,"retry_in_ns":0,"reset_in":36,
   "reset_in_ns":36000000000,"limit":{"name":"NewOrdersPerAccount","burst":300,"count":300,
   "period":10800,"period_ns":10800000000000,"shadow":false},"id":"12345678",
   "bucket":"6:12345678"}                                                    (on one line)
      `allowed`   of a refund: whether anything was given back
      `shadow`    whether it would be denied, had its limit not been in shadow
      `retry_in`  seconds until the same ask would pass, and in nanoseconds
      `reset_in`  seconds until the bucket is full, and in nanoseconds
      A transaction is answered by the ask that decided it.
  {"reloaded":true}
  {"error":".."}
      The line could not be decided. Nothing was spent, and the replay goes on.

EXAMPLES
  ratekeeper replay limits --limits limits.yaml < asks.jsonl
  echo '{"at":0,"op":"spend","limit":"NewOrdersPerAccount","id":1}' |
    ratekeeper replay limits --limits limits.yaml

EXIT CODES
  0  the input is at its end
  2  the limits files are not good, or cannot be read"#;

const UDP_HELP: &str = r#"INPUT
  1700000000.0999999<TAB>over_limit ws global
      the time in seconds since 1970, as a decimal number; it may step backwards
      one datagram, in which a backslash begins an escape: \n \r \t \\ \a \b \f \v \e \' \" \?, \xHH
      with one or two digits, \OOO with one to three octal digits
  # a comment
      copied as it is

OUTPUT
  1700000000.0999999<TAB>over_limit ws global<TAB>ok N 0.0 2500.0 10
      the same, and the answer, in which what is not printable ASCII is written \n, \r, \t, \\ or
      \xHH; (none) if there is no answer

EXAMPLES
  ratekeeper replay udp --rules rules.yaml < datagrams.tsv
  printf '0\tover_limit ws global\n' | ratekeeper replay udp --rules rules.yaml

EXIT CODES
  0  the input is at its end
  2  a line is not as above, which ends the replay; or the files are not good, or cannot be read"#;

const BUCKET_HELP: &str = r#"All rows are one connection.

INPUT
  1700000000.5<TAB>get bucket_a\r\n
      the time in seconds since 1970, as a decimal number; it may step backwards
      what one read brought: a line, a part of one, or several. A backslash begins an escape:
      \n \r \t \\ \a \b \f \v \e \' \" \?, \xHH with one or two digits, \OOO with one to three octal
      digits
  # a comment
      copied as it is

OUTPUT
  1700000000.5<TAB>get bucket_a\r\n<TAB>1\n
      the same, and all that was answered to it, in which what is not printable ASCII is written
      \n, \r, \t, \\ or \xHH; (none) if nothing was, and after the connection was closed
  # the end of the connection<TAB>1\n
      only if the last line was not ended, and is answered because no more can follow

EXAMPLES
  printf '0\tget billing\\n\n' | ratekeeper replay bucket --buckets examples/buckets.conf

EXIT CODES
  0  the input is at its end
  2  a line is not as above, which ends the replay; or the files are not good, or cannot be read"#;

const THROTTR_HELP: &str = "\
All rows are one connection.

INPUT
  1700000000.5<TAB>02020263317231
      the time in seconds since 1970, as a decimal number; it may step backwards
      what one read brought, in hexadecimal: a request, a part of one, or several
  # a comment
      copied as it is

OUTPUT
  1700000000.5<TAB>02020263317231<TAB>000000000000000000010000000000000000
      the same, and all that was answered to it; (none) if nothing was, and after the connection
      was closed

EXAMPLES
  printf '0\\t0201016372\\n' | ratekeeper replay throttr

EXIT CODES
  0  the input is at its end
  2  a line is not as above, which ends the replay; or the files are not good, or cannot be read";

const RESP_HELP: &str = r#"All rows are one connection.

INPUT
  1700000000.5<TAB>CL.THROTTLE ada 2 3 60\r\n
      the time in seconds since 1970, as a decimal number; it may step backwards
      what one read brought: a request, a part of one, or several, as arrays or as lines. A
      backslash begins an escape: \n \r \t \\ \a \b \f \v \e \' \" \?, \xHH with one or two digits,
      \OOO with one to three octal digits
  # a comment
      copied as it is

OUTPUT
  1700000000.5<TAB>CL.THROTTLE ada 2 3 60\r\n<TAB>*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:20\r\n
      the same, and all that was replied to it, in which what is not printable ASCII is written
      \n, \r, \t, \\ or \xHH; (none) if nothing was, and after the connection was closed

EXAMPLES
  printf '0\tCL.THROTTLE ada 2 3 60\\n\n' | ratekeeper replay resp
  ratekeeper replay resp --limits limits.yaml < requests.tsv

EXIT CODES
  0  the input is at its end
  2  a line is not as above, which ends the replay; or the files are not good, or cannot be read"#;

#[derive(Debug, Subcommand)]
pub(crate) enum RawReplay {
    /// Decide asks by name: JSON lines in, one JSON line out for each
    #[command(after_help = LIMITS_HELP)]
    Limits(RawFiles),
    /// Answer the datagrams of the UDP rate limiter
    #[command(after_help = UDP_HELP)]
    Udp {
        /// The file that says which rule each key has
        #[arg(long, value_name = "FILE")]
        rules: PathBuf,
        /// The file with buckets that rules may use
        #[arg(long, value_name = "FILE")]
        buckets: Option<PathBuf>,
        #[command(flatten)]
        files: RawOptionalFiles,
    },
    /// Answer a connection to the token-bucket server
    #[command(after_help = BUCKET_HELP)]
    Bucket {
        /// The file with a bucket and its rate on each line
        #[arg(long, value_name = "FILE")]
        buckets: PathBuf,
        #[command(flatten)]
        files: RawOptionalFiles,
    },
    /// Answer a connection to the Throttr server
    #[command(after_help = THROTTR_HELP)]
    Throttr {
        #[command(flatten)]
        files: RawOptionalFiles,
        /// Let the limits answer for resources that are called like one
        #[arg(long, requires = "limits")]
        named_limits: bool,
        /// Close the connection at the first byte that begins no request
        #[arg(long)]
        strict: bool,
    },
    /// Answer a connection of a client of Redis
    #[command(after_help = RESP_HELP)]
    Resp(RawOptionalFiles),
}

#[derive(Debug, Args)]
pub(crate) struct RawOptionalFiles {
    /// The file that says what each limit allows [default: there are no limits]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// The file that says what it allows to some
    #[arg(long, value_name = "FILE", requires = "limits")]
    overrides: Option<PathBuf>,
}

impl RawOptionalFiles {
    fn resolve(self) -> Option<Files> {
        let overrides = self.overrides;
        self.limits.map(|limits| Files { limits, overrides })
    }
}

impl From<RawReplay> for Replay {
    fn from(raw: RawReplay) -> Self {
        match raw {
            RawReplay::Limits(files) => Self::Limits(files.into()),
            RawReplay::Udp { rules, buckets, files } => {
                Self::Udp { rules, buckets, files: files.resolve() }
            }
            RawReplay::Bucket { buckets, files } => {
                Self::Bucket { buckets, files: files.resolve() }
            }
            RawReplay::Throttr { files, named_limits, strict } => {
                let options = Options { strict, named_limits };
                Self::Throttr { files: files.resolve(), options }
            }
            RawReplay::Resp(files) => Self::Resp(files.resolve()),
        }
    }
}
