//! The UDP rate limiter: one datagram asks, one answers.
