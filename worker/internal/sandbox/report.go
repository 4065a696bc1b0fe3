package sandbox

import "slices"

// The pieces that isolation is made of.
const (
	UserID           = "userId"           // a user id of its own for each launch
	PIDNamespace     = "pidNamespace"     // sees no process but its own
	MountNamespace   = "mountNamespace"   // mounts of its own
	NetworkNamespace = "networkNamespace" // a loopback of its own, which leads to the worker's proxy and nowhere else
	PrivateFiles     = "privateFiles"     // and a root of its own, with none of the host's files but a browser's
	MemoryLimit      = "memoryLimit"      // its memory can be bounded
	ProcessLimit     = "processLimit"     // its processes and threads can be bounded
	CgroupKill       = "cgroupKill"       // the kernel ends all of it at once
	ChromiumSandbox  = "sandbox"          // Chromium's own, by user namespaces
)

// Pieces are the names of all pieces, in the order of a Report.
func Pieces() []string {
	return []string{UserID, PIDNamespace, NetworkNamespace, MountNamespace, PrivateFiles, MemoryLimit, ProcessLimit, CgroupKill, ChromiumSandbox}
}

// Piece is one of them on this host. Reason says why it is off, or what is to
// know of it although it is on.
type Piece struct {
	Name   string
	On     bool
	Reason string
}

// Report says what holds on this host and what does not, each piece once.
type Report struct{ Pieces []Piece }

// On reports whether a piece holds.
func (r Report) On(name string) bool {
	return slices.ContainsFunc(r.Pieces, func(p Piece) bool { return p.Name == name && p.On })
}

// Missing are the pieces that are off.
func (r Report) Missing() []Piece {
	return slices.DeleteFunc(slices.Clone(r.Pieces), func(p Piece) bool { return p.On })
}

// WithDisabled is the report with a piece off, for that reason.
func (r Report) WithDisabled(name, reason string) Report {
	r.Pieces = slices.Clone(r.Pieces)
	for i := range r.Pieces {
		if r.Pieces[i].Name == name {
			r.Pieces[i] = Piece{Name: name, Reason: reason}
		}
	}
	return r
}

// DisabledReport is the report of a worker that isolates nothing, for that reason.
func DisabledReport(reason string) Report {
	var r Report
	for _, name := range Pieces() {
		r.Pieces = append(r.Pieces, Piece{Name: name, Reason: reason})
	}
	return r
}
