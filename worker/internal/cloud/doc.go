// Package cloud is the client of the cloud API: the generated client with
// timeouts, and every answer converted to a value or a fault. Any answer that
// is not clearly a grant is treated as a refusal (specification 3.2: fail
// closed).
//
// Its folder report delivers start and end reports from a journal, and sends
// heartbeats. Only app imports both. The journal serializes its writes with a lock of
// its own; report owns the goroutines of delivery and heartbeat, which its Run ends.
package cloud
