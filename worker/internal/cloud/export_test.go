package cloud

import "time"

// Within returns the client with another bound of one call.
func (c Client) Within(timeout time.Duration) *Client {
	c.timeout = timeout
	return &c
}
