//! What the help of the load tool says behind its options.

/// What is the same for every protocol.
macro_rules! after_help {
    ($first:literal) => {
        concat!(
            $first,
            "

Without --rate the loop is closed: a connection sends --depth requests in one write, waits until all
are answered, and sends the next, as `redis-benchmark -P` does. A server that stalls is asked less.
With --rate the loop is open: requests come due at that rate, to one connection after the other,
whatever the server does; --depth is how many a connection may have in flight. A latency counts from
when a request was due, so a stall shows in all that it held up; what could not be sent by the end
is told, and counts with as long as it had waited. To be on time this program keeps one processor
busy.

Several depths or several rates, such as --depth 1,4,16, are measured one after the other.

With --judge every decision is recorded, warm-up included, and judged when the run is over: was
there more allowed than any order of the requests explains, or denied although there was room
whatever the order? What was spent before the run does not matter; but keys whose rule is in the
request have to be unused, or last used under the same rule.

EXIT CODES
  0  measured
  2  the arguments are wrong
  3  no server was reached, or every answer was an error
  4  with --judge: the server certainly decided wrongly"
        )
    };
}

pub(crate) const UDP_HELP: &str = after_help!(
    "\
Asks `over_limit KEY`, a datagram each; {key} becomes a number. The rules of the server say which
keys it counts. A datagram that is not answered within --timeout is lost; nobody waits for it. To
--judge, name the rules file, and with --judge-limits the limits that it uses.

EXAMPLES
  ratekeeper bench udp --connections 4 --depth 64
  ratekeeper bench udp --connections 4 --depth 64 --segments 16
  ratekeeper bench udp --server '[::1]:2000' --key 'ws global' --keys 1 --rate 20000"
);

pub(crate) const BUCKET_HELP: &str = after_help!(
    "\
Asks `get NAME`, a line each; {key} becomes a number. The server needs such buckets, or limits: with
`LIMIT:ID` a token is taken from what the id has of the limit. To --judge, name the buckets file, or
the limits file if it is called .yaml.

EXAMPLES
  ratekeeper bench bucket
  ratekeeper bench bucket --name bucketc --keys 1 --depth 1,4,16,64 --chart depths.svg
  ratekeeper bench bucket --name 'Mine:{key}' --keys 1000000 --spread zipf:0.9 --rate 50000"
);

pub(crate) const THROTTR_HELP: &str = after_help!(
    "\
Sends inserts, which use a quota and begin it if it is not there; {key} becomes a number. The
quota is in the request, so --judge takes no file.

EXAMPLES
  ratekeeper bench throttr --depth 16
  ratekeeper bench throttr --quota 10 --ttl 1s --rate 20000"
);

pub(crate) const HTTP_HELP: &str = after_help!(
    "\
Asks `POST /v1/spend` over HTTP/1.1, without TLS; {key} becomes a number, and at the end of an IPv4
address counts addresses up. The server needs such a
limit. To --judge, name the limits file.

EXAMPLES
  ratekeeper bench http
  ratekeeper bench http --limit Mine --id 'customer-{key}' --keys 100000 --rate 20000
  ratekeeper bench http --limit Mine --judge limits.yaml"
);

pub(crate) const RESP_HELP: &str = after_help!(
    "\
Asks Ratekeeper's RESP door, or any server that speaks RESP, so that they can be compared; {key}
becomes a number.

COMMANDS
  cl-throttle   CL.THROTTLE KEY MAX_BURST COUNT PERIOD COST
  throttle      THROTTLE LIMIT KEY COST
  evalsha       EVALSHA with a GCRA script, which the server is given first
  get           GET KEY
  'ANY WORDS'   as they are, one alone if in capitals; with --denied N, an answer that is or begins
                with N is a denial
Where there is a token, in RATEKEEPER_TOKEN or a file, every connection shows it first, in clear
text.
To --judge throttle, name the limits file; cl-throttle and evalsha have the rule in the request.

EXAMPLES
  ratekeeper bench resp --depth 16
  ratekeeper bench resp --burst 10 --count 10 --period 1s --keys 100 --rate 2000 --judge
  ratekeeper bench resp --server :6379 --command evalsha --keys 1000000
  ratekeeper bench resp --server :6379 --command 'INCR n{key}' --rate 50000
  ratekeeper bench resp --server :7000 --command 'THROTTLE {key} 99 100 60' --denied 0"
);

pub(crate) const ECHO_UDP_HELP: &str = after_help!(
    "\
Sends datagrams that any echo server sends back, and compares. No server that decides can be faster
than one that only does this, so it is what a UDP rate limiter can be compared with.

EXAMPLES
  ratekeeper bench echo-udp --server :7000 --connections 4 --depth 64
  ratekeeper bench compare 'udp --connections 4 --depth 64' \\
      'echo-udp --server :7000 --connections 4 --depth 64'"
);

pub(crate) const ECHO_TCP_HELP: &str = after_help!(
    "\
Sends requests of some bytes, and expects some bytes for each, whatever they are; without
--answer-bytes as many as were sent, as echo servers do. No server that decides can be faster than one
that only does this.

EXAMPLES
  ratekeeper bench echo-tcp --server :7000 --depth 100
  ratekeeper bench compare 'bucket --depth 16' 'echo-tcp --server :7000 --depth 16'"
);
