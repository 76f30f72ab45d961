//! Whole servers on free ports, with real sockets.

mod crowd;
mod drain;
mod exactness;
mod reload;
mod state;
mod support;
mod vectors;
