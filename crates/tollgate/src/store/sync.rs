//! The locks of the store: `parking_lot`'s, or shuttle's where every interleaving is explored.

#[cfg(not(feature = "shuttle"))]
pub(super) use parking_lot::MutexGuard as Guard;
#[cfg(feature = "shuttle")]
pub(super) use shuttle::sync::MutexGuard as Guard;

#[cfg(not(feature = "shuttle"))]
#[derive(Debug)]
pub(super) struct Lock<T>(parking_lot::Mutex<T>);

#[cfg(not(feature = "shuttle"))]
impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> Guard<'_, T> {
        self.0.lock()
    }
}

#[cfg(feature = "shuttle")]
#[derive(Debug)]
pub(super) struct Lock<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
