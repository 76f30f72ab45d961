//! Places to send requests to, each with its terms.

/// What kind of place: which path it has, and which of Discord's rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages of a channel.
    Messages,
    /// Pins of a channel, which share a bucket with typing there.
    Pins,
    /// Typing in a channel, which shares a bucket with its pins.
    Typing,
    /// Deleting messages of a channel: the bucket has the name of that of [`Kind::Messages`], and
    /// the server counts it apart.
    Deletion,
    /// Deleting old messages of a channel, which is counted apart again.
    OldDeletion,
    /// Members of a guild.
    Members,
    /// Executing a webhook.
    Webhook,
    /// Answering an interaction, which the global limit does not count.
    Interaction,
    /// Something that is not limited by itself, and says nothing of limits.
    Free,
}

/// A place to send requests to.
#[derive(Clone, Debug)]
pub struct Place {
    /// The method.
    pub method: &'static str,
    /// How many requests a window has.
    pub limit: u64,
    /// How long a window lasts, in nanoseconds.
    pub window: u64,
    /// What part of a hundred requests is refused because of others.
    pub crowded_of_100: u64,
    /// Places of one family have buckets of the same name.
    pub(super) family: u64,
    /// The major parameter: buckets of the same name are kept apart by it.
    pub(super) major: u64,
    kind: Kind,
}

impl Place {
    /// A place of a kind below a major parameter, with so many requests per window.
    pub fn new(kind: Kind, major: u64, limit: u64, window: u64) -> Self {
        let (method, family) = match kind {
            Kind::Messages => ("POST", 1),
            Kind::Pins => ("PUT", 2),
            Kind::Typing => ("POST", 2),
            Kind::Deletion | Kind::OldDeletion => ("DELETE", 1),
            Kind::Members => ("PATCH", 3),
            Kind::Webhook => ("POST", 4),
            Kind::Interaction => ("POST", 5),
            Kind::Free => ("GET", 6),
        };
        Self { method, limit, window, crowded_of_100: 0, family, major, kind }
    }

    /// The same place, crowded by others who use it: so many of a hundred requests are refused.
    #[must_use]
    pub fn crowded(self, of_100: u64) -> Self {
        Self { crowded_of_100: of_100, ..self }
    }

    /// Counted apart, though the bucket has the same name as another.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self.kind, Kind::Deletion | Kind::OldDeletion)
    }

    /// What it is about is old.
    pub(super) fn is_old(&self) -> bool {
        self.kind == Kind::OldDeletion
    }

    /// The global limit does not count it.
    pub(super) fn is_exempt(&self) -> bool {
        self.kind == Kind::Interaction
    }

    /// Its answers say nothing of limits.
    pub(super) fn is_silent(&self) -> bool {
        self.kind == Kind::Free
    }

    /// A path that leads here; `id` is part of it where the place holds many things.
    pub(super) fn path(&self, id: u64) -> String {
        let major = self.major + 100_000_000_000_000_000;
        match self.kind {
            Kind::Messages => format!("/api/v10/channels/{major}/messages"),
            Kind::Pins => format!("/api/v10/channels/{major}/messages/pins/{id}"),
            Kind::Typing => format!("/api/v10/channels/{major}/typing"),
            Kind::Deletion | Kind::OldDeletion => {
                format!("/api/v10/channels/{major}/messages/{id}")
            }
            Kind::Members => format!("/api/v10/guilds/{major}/members/{id}?reason=none"),
            Kind::Webhook => format!("/api/v10/webhooks/{major}/secret-{major}?wait=true"),
            Kind::Interaction => {
                format!("/api/v10/interactions/{major}/aW50ZXJhY3Rpb246{major}/callback")
            }
            Kind::Free => format!("/api/v10/users/{id}"),
        }
    }
}
