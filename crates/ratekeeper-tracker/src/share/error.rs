//! Why nothing can be shared, and what to do about it.

use super::ANSWER_MAX;

/// Why nothing can be shared: what was expected, of whom, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The address of the server is not one.
    #[error("`{0}` is not the address of a Ratekeeper server, as http://127.0.0.1:8080 is")]
    Address(String),
    /// The address asks for TLS.
    #[error(
        "`{0}` cannot be asked: sharing speaks HTTP without TLS. Give the http:// address of a server on \
         this machine or in a private network, or of a proxy here that speaks TLS to it"
    )]
    Https(String),
    /// The token has characters that no header field has.
    #[error("the token for the Ratekeeper server at {0} has characters that cannot be sent")]
    Token(String),
    /// Nobody answers.
    #[error(
        "no Ratekeeper server answers at {server} within {ANSWER_MAX:?}: start one there with `ratekeeper serve \
         --limits FILE`, or say with `Share::if_absent` what to do without it"
    )]
    Absent {
        /// Where one should be.
        server: String,
        /// What happened instead, if it was anything but silence.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The server wants another token, or one at all.
    #[error(
        "the Ratekeeper server at {server} answers {status} ({said}): `ShareServer::token` has to be a token \
         of its tokens file that may `decide`"
    )]
    Refused {
        /// Which server.
        server: String,
        /// The status of its answer.
        status: u16,
        /// What it said.
        said: String,
    },
    /// The server does not have the limit.
    #[error(
        "the Ratekeeper server at {server} cannot count by the limit `{limit}` ({said}): its limits file needs \
         `{limit}: {wanted}`"
    )]
    NoLimit {
        /// Which server.
        server: String,
        /// The name of the limit.
        limit: String,
        /// What it said.
        said: String,
        /// What its limits file needs.
        wanted: String,
    },
    /// The limit of the server is another than what is shared.
    #[error(
        "the limit `{limit}` of the Ratekeeper server at {server} is {found}: what is shared needs \
         `{limit}: {wanted}` in its limits file"
    )]
    WrongLimit {
        /// Which server.
        server: String,
        /// The name of the limit.
        limit: String,
        /// What it is there.
        found: String,
        /// What its limits file needs.
        wanted: String,
    },
    /// Who answers is no Ratekeeper server, or one of an earlier release.
    #[error("{server} does not answer as a Ratekeeper server of this release does: {said}")]
    Strange {
        /// Who was asked.
        server: String,
        /// What is wrong with the answer.
        said: String,
    },
}
