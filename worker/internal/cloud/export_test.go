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

// MachineReports are the reports of a machine at given times.
type MachineReports struct{ machineReports }

// NewMachineReports returns reports of what describe returns.
func NewMachineReports(describe func() MachineReport) *MachineReports {
	return &MachineReports{machineReports{describe: describe}}
}

// Due returns the report to send.
func (m *MachineReports) Due(now time.Time) *MachineReport { return m.due(now) }

// SetDelivered records a delivered report.
func (m *MachineReports) SetDelivered(report *MachineReport, now time.Time) {
	m.setDelivered(report, now)
}
