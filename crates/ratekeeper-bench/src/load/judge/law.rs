//! What decides over the keys of a run: the files that the server has, or the requests themselves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use ratekeeper::Limits;
use ratekeeper::limiter::EVERYBODY;
use ratekeeper::limits::{IdBuffer, Limit, NamedLimit, Source};
use ratekeeper_client::throttr::ThrottrRequest;
use ratekeeper_oracle::terms::Terms;
use ratekeeper_oracle::trace::Rule;
use ratekeeper_protocol::udp::{self, Governed, Guide, Rules};
use ratekeeper_server::{STARTER_LIMITS, Text, with_starter_buckets};

use crate::error::BenchError;
use crate::load::target::{Command, Decides, Door, Target};
use crate::load::wire::template::Template;

#[derive(Debug, Args)]
pub(crate) struct RawJudge {
    /// Judge every decision: by the file that the server has of what is asked for, or by what it
    /// begins with; without a FILE where the rule is in the requests
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "clap tells so whether a flag has a value")]
    judge: Option<Option<PathBuf>>,
    /// The limits file of the server, if --judge names another
    #[arg(long, value_name = "FILE", requires = "judge")]
    judge_limits: Option<PathBuf>,
    /// The overrides file of the server
    #[arg(long, value_name = "FILE", requires = "judge")]
    judge_overrides: Option<PathBuf>,
}

/// The rule of each key.
#[derive(Debug)]
pub(crate) enum Law {
    /// It is in the request, and each key has a bucket of its own.
    Carried(Rule, Template),
    /// That of a limit, for an id.
    Limit { limits: Limits, limit: Template, id: Template, cost: u64 },
    /// That of a bucket, or a limit and an id.
    Bucket { limits: Limits, name: Template, cost: u64 },
    /// That which the rules of a UDP rate limiter lead to.
    Rules { limits: Limits, rules: Box<Rules>, key: Template },
}

/// What decides over one key.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) rule: Rule,
    /// What the bucket is called. Keys that have the same share it.
    pub(crate) bucket: String,
}

/// Looks up keys in a law.
pub(crate) struct Reader<'a> {
    law: &'a Law,
    guide: Option<Guide<'a>>,
}

impl RawJudge {
    /// The law of a target, if it is to be judged. Refuses files that do not say what applies.
    pub(crate) fn read(&self, target: &Target) -> Result<Option<Law>, BenchError> {
        let Some(file) = &self.judge else { return Ok(None) };
        let law = self.law(file.as_deref(), target)?;
        let first = law.reader().apply(0).map_err(BenchError::Usage)?;
        if let Some(why) = first.rule.refusal() {
            return Err(BenchError::Usage(format!("{} cannot be judged: {why}", first.bucket)));
        }
        Ok(Some(law))
    }

    fn law(&self, file: Option<&Path>, target: &Target) -> Result<Law, BenchError> {
        let text = |text: &str| target.template().text(text);
        let cost = target.door.cost();
        Ok(match &target.door {
            Door::Udp { key, .. } => {
                let limits = self.limits(self.judge_limits.as_deref())?;
                let rules = read_or("rules", file, &udp::STARTER)?;
                let rules = Rules::parse(&rules.source(), &limits)?;
                Law::Rules { limits, rules: Box::new(rules), key: text(key) }
            }
            Door::Bucket { name, .. } => {
                Law::Bucket { limits: self.buckets(file)?, name: text(name), cost }
            }
            Door::Throttr { insert, consumer, resource } => {
                self.refuse_files(file)?;
                let name = text(&format!("{consumer} {resource}"));
                Law::Carried(quota(insert).map_err(BenchError::Usage)?, name)
            }
            Door::Http { limit, id, .. }
            | Door::Resp {
                command: Command { decides: Decides::Limit { limit, id }, .. }, ..
            } => self.named(file, text(limit), text(id), cost)?,
            Door::Resp {
                command: Command { decides: Decides::Rule { rule, key }, .. }, ..
            } => {
                self.refuse_files(file)?;
                let [burst, count, secs] = *rule;
                let terms = Terms { burst, count, period_ns: secs.saturating_mul(1_000_000_000) };
                Law::Carried(Rule::Tokens { terms, cost }, text(key))
            }
            Door::EchoUdp { .. } | Door::EchoTcp { .. } => {
                return Err(BenchError::Usage(
                    "an echo decides nothing that could be judged".into(),
                ));
            }
            Door::Resp { .. } => {
                let words = "nobody knows how it decides: judge cl-throttle, throttle or evalsha";
                return Err(BenchError::Usage(format!("`{}`: {words}", target.door)));
            }
        })
    }

    fn named(
        &self,
        file: Option<&Path>,
        limit: Template,
        id: Template,
        cost: u64,
    ) -> Result<Law, BenchError> {
        if self.judge_limits.is_some() {
            let words = "--judge FILE names the limits already: leave out --judge-limits";
            return Err(BenchError::Usage(words.into()));
        }
        Ok(Law::Limit { limits: self.limits(file)?, limit, id, cost })
    }

    /// Limits and buckets: a file that is called as YAML holds the former.
    fn buckets(&self, file: Option<&Path>) -> Result<Limits, BenchError> {
        let is_yaml = |path: &&Path| path.extension().is_some_and(|it| it == "yaml" || it == "yml");
        let beside = self.judge_limits.as_deref();
        match (file, file.filter(is_yaml)) {
            (_, Some(_)) if beside.is_some() => Err(BenchError::Usage(
                "--judge and --judge-limits both name limits: a buckets file is not called .yaml"
                    .into(),
            )),
            (Some(path), None) => {
                let buckets = Text::read("buckets", path)?;
                Ok(self.limits(beside)?.with_buckets(&buckets.source())?)
            }
            (_, limits) => Ok(with_starter_buckets(self.limits(limits.or(beside))?)?),
        }
    }

    fn limits(&self, file: Option<&Path>) -> Result<Limits, BenchError> {
        let limits = read_or("limits", file, &STARTER_LIMITS)?;
        let overrides = self.judge_overrides.as_deref();
        let overrides = overrides.map(|path| Text::read("overrides", path)).transpose()?;
        Ok(Limits::parse(&limits.source(), overrides.as_ref().map(Text::source).as_ref())?)
    }

    fn refuse_files(&self, file: Option<&Path>) -> Result<(), BenchError> {
        if file.is_none() && self.judge_limits.is_none() && self.judge_overrides.is_none() {
            return Ok(());
        }
        let words = "the rule is in the requests: say --judge without a file";
        Err(BenchError::Usage(words.into()))
    }
}

/// What is in a file, or what a server begins with.
fn read_or(
    what: &'static str,
    file: Option<&Path>,
    starter: &Source<'_>,
) -> Result<Text, BenchError> {
    Ok(match file {
        Some(path) => Text::read(what, path)?,
        None => Text::of(starter),
    })
}

fn quota(insert: &ThrottrRequest) -> Result<Rule, String> {
    let ThrottrRequest::Insert { quota, usage, unit, ttl } = insert else {
        return Err("only inserts can be judged".into());
    };
    let ttl = i64::try_from(*ttl).ok().map(|ttl| unit.nanos(ttl));
    let ttl_ns = ttl.and_then(|ttl| u64::try_from(ttl).ok());
    let ttl_ns = ttl_ns.ok_or("--ttl is too long to be judged")?;
    Ok(Rule::Quota { quota: *quota, usage: *usage, ttl_ns })
}

impl Law {
    pub(crate) fn reader(&self) -> Reader<'_> {
        let guide = match self {
            Self::Rules { rules, .. } => Some(rules.guide()),
            _ => None,
        };
        Reader { law: self, guide }
    }
}

impl Reader<'_> {
    /// What decides over a key. Refuses one that the files have no place for.
    pub(crate) fn apply(&mut self, key: u64) -> Result<Applied, String> {
        let text = |template: &Template| {
            let mut bytes = Vec::new();
            template.write(key, &mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match self.law {
            Law::Carried(rule, name) => Ok(Applied { rule: *rule, bucket: text(name) }),
            Law::Limit { limits, limit, id, cost } => named(limits, &text(limit), &text(id), *cost),
            Law::Bucket { limits, name, cost } => {
                let name = text(name);
                match name.split_once(':') {
                    Some((limit, id)) if limits.named(&name).is_none() => {
                        named(limits, limit, id, *cost)
                    }
                    _ => named(limits, &name, EVERYBODY, *cost),
                }
            }
            Law::Rules { limits, key, .. } => {
                let key = text(key);
                let has_place = |limit: &str, id: &str| find(limits, limit, id).is_ok();
                let guide = self.guide.as_mut().ok_or("there are no rules")?;
                governed(limits, guide.governed(key.as_bytes(), has_place), key)
            }
        }
    }
}

fn governed(limits: &Limits, by: Governed, key: String) -> Result<Applied, String> {
    match by {
        Governed::Average { rule, key } => Ok(Applied {
            rule: Rule::Average {
                limit: rule.limit(),
                period_secs: rule.period_secs(),
                strict: rule.is_strict(),
            },
            bucket: String::from_utf8_lossy(&key).into_owned(),
        }),
        Governed::Named { limit, id } => named(limits, &limit, &id, 1),
        Governed::Fixed { over } => {
            Ok(Applied { rule: Rule::Fixed { allowed: !over }, bucket: key })
        }
    }
}

fn named(limits: &Limits, limit: &str, id: &str, cost: u64) -> Result<Applied, String> {
    let (found, id) = find(limits, limit, id)?;
    if limits.named(limit).is_some_and(NamedLimit::is_shadow) {
        return Err(format!("`{limit}` is in shadow and denies nobody: there is nothing to judge"));
    }
    let period_ns = u64::try_from(found.period().get()).unwrap_or(u64::MAX);
    let terms = Terms { burst: found.burst(), count: found.count(), period_ns };
    let bucket = if id == EVERYBODY { limit.to_owned() } else { format!("{limit}:{id}") };
    Ok(Applied { rule: Rule::Tokens { terms, cost }, bucket })
}

/// A limit for an id, and the id in its one spelling. One in shadow has a place for ids as well.
fn find(limits: &Limits, limit: &str, id: &str) -> Result<(Limit, String), String> {
    let named = limits.named(limit).ok_or_else(|| {
        format!("there is no limit called `{limit}`: --judge takes the file that the server has")
    })?;
    let mut buffer = IdBuffer::new();
    let canonical = named.id_format().canonical(id, &mut buffer);
    let id = canonical.map_err(|wrong| format!("`{id}` is no id of `{limit}`: {wrong}"))?;
    let found = named.limit_for(id).ok_or_else(|| format!("`{limit}` says nothing of `{id}`"))?;
    Ok((*found, id.to_owned()))
}

/// Numbers buckets by their names.
#[derive(Default)]
pub(crate) struct Numbers(HashMap<String, usize>);

impl Numbers {
    /// The number of a bucket, which is `next` if it is new.
    pub(crate) fn number(&mut self, bucket: &str, next: usize) -> usize {
        if let Some(number) = self.0.get(bucket) {
            return *number;
        }
        self.0.insert(bucket.to_owned(), next);
        next
    }
}
