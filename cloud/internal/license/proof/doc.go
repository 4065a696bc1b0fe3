// Package proof shows that the license accounting keeps its rules, and that
// the rules would be missed. It holds nothing but tests:
//
//   - the model (model_test.go, model_heartbeat_test.go) says in a few hundred
//     lines what the accounting shall do, each rule with its source;
//   - the model test (proof_test.go) plays random scripts of every operation on
//     several replicas and a real PostgreSQL: one call at a time, several at
//     once, and with crashes. What each call was told and what the tables hold
//     after it must be what the model says, in one order of what went on at once;
//   - each mutation (mutations_test.go) takes one rule away, mostly by changing
//     the SQL on its way to the database, and the same comparison must notice;
//   - a durable server is killed under traffic (killed_test.go), and nothing that
//     was acknowledged may be lost.
//
// MODEL_OPERATIONS says how many operations the model test plays, and
// -rapid.seed with which seed.
package proof
