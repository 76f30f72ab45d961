use std::rc::Rc;

use tokio::task::LocalSet;

use super::*;

#[tokio::test]
async fn whoever_goes_behind_the_others_is_before_nobody_who_is_ready() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let tasks = LocalSet::new();
    for name in ["ada", "ben", "cleo"] {
        let order = Rc::clone(&order);
        tasks.spawn_local(async move {
            order.borrow_mut().push(("reads", name));
            behind_the_others().await;
            order.borrow_mut().push(("writes", name));
        });
    }
    tasks.await;
    let (reads, writes) = (["reads"; 3], ["writes"; 3]);
    let expected = reads.into_iter().chain(writes).zip(["ada", "ben", "cleo"].repeat(2));
    assert_eq!(*order.borrow(), expected.collect::<Vec<_>>());
}
