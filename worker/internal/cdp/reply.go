package cdp

import (
	"context"
	"encoding/json"
	"fmt"
)

// Reply is the pending answer to one request.
type Reply struct {
	conn   *Conn
	id     int64
	method string
	answer chan message

	release func() // of OnCall
}

// Wait waits for the answer, as Call does. An answer that has arrived takes precedence over the
// end of the connection or of ctx.
func (r *Reply) Wait(ctx context.Context, result any) (err error) {
	defer r.release()
	select {
	case m := <-r.answer:
		return decode(r.method, m, result)
	case <-r.conn.done:
		err = r.conn.Err()
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.conn.unregister(r.id)
	select {
	case m := <-r.answer:
		return decode(r.method, m, result)
	default:
		return fmt.Errorf("%s: %w", r.method, err)
	}
}

func decode(method string, m message, result any) error {
	if m.Error != nil {
		return fmt.Errorf("%s: %w", method, m.Error)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("%s: decode: %w", method, err)
	}
	return nil
}

// Discard drops the answer.
func (r *Reply) Discard() {
	r.conn.unregister(r.id)
	r.release()
}
