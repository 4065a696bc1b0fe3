package cloud

import "time"

// Within returns a copy of the client with another timeout.
func (c Client) Within(timeout time.Duration) *Client {
	c.timeout = timeout
	return &c
}

// MadeFor returns a copy of the client for another version of the contract.
func (c Client) MadeFor(version string) *Client {
	c.contracts.last.Expected = version
	return &c
}
