// Package proof tests that the license accounting keeps its rules, and that a broken
// rule is detected. It contains only tests:
//
//   - the model (model_test.go, model_heartbeat_test.go) specifies the accounting in
//     a few hundred lines, each rule with its source;
//   - the model test (proof_test.go) runs random scripts of all operations on several
//     replicas and a real PostgreSQL: one call at a time, several concurrently, and
//     with crashes. The answer of each call and the tables after it must match the
//     model, in some order of the concurrent steps;
//   - each mutation (mutations_test.go) disables one rule, mostly by changing the SQL
//     on its way to the database, and the same comparison must detect it;
//   - a durable server is killed under load (killed_test.go), and no acknowledged call
//     may be lost.
//
// MODEL_OPERATIONS is the number of operations of the model test, and -rapid.seed its
// seed.
package proof
