package cloud

import "time"

// Within returns the client with another bound of one call.
func (c Client) Within(timeout time.Duration) *Client {
	c.timeout = timeout
	return &c
}

// MadeFor returns the client as if it had been made for another version of the
// contract.
func (c Client) MadeFor(version string) *Client {
	c.contracts.last.Expected = version
	return &c
}
