package sandbox

import "slices"

// The pieces of isolation.
const (
	UserID           = "userId"           // a separate user id for each launch
	PIDNamespace     = "pidNamespace"     // no access to processes of other launches and of the host
	ProcessList      = "processList"      // a /proc that shows only the processes of the launch
	MountNamespace   = "mountNamespace"   // separate mounts
	NetworkNamespace = "networkNamespace" // a separate loopback that reaches the worker's proxy only
	PrivateFiles     = "privateFiles"     // a separate root with only the host files that a browser needs
	MemoryLimit      = "memoryLimit"      // memory can be limited
	ProcessLimit     = "processLimit"     // processes and threads can be limited
	CgroupKill       = "cgroupKill"       // the kernel kills all processes at once
	ChromiumSandbox  = "sandbox"          // Chromium's own sandbox, with user namespaces
)

// Pieces returns the names of all pieces, in the order of a Report.
func Pieces() []string {
	return []string{UserID, PIDNamespace, ProcessList, NetworkNamespace, MountNamespace, PrivateFiles, MemoryLimit, ProcessLimit, CgroupKill, ChromiumSandbox}
}

// Piece is the state of one piece on this host. Reason says why it is off, or
// gives details if it is on.
type Piece struct {
	Name   string
	On     bool
	Reason string
}

// Report lists each piece of isolation once.
type Report struct{ Pieces []Piece }

// On reports whether a piece is on.
func (r Report) On(name string) bool {
	return slices.ContainsFunc(r.Pieces, func(p Piece) bool { return p.Name == name && p.On })
}

// Missing returns the pieces that are off.
func (r Report) Missing() []Piece {
	return slices.DeleteFunc(slices.Clone(r.Pieces), func(p Piece) bool { return p.On })
}

// Inseparable returns the pieces that are off although launches need them to be separate
// from each other and from the worker. Without the other pieces, launches share a user
// and the machine's resources.
func (r Report) Inseparable() []Piece {
	needed := []string{PIDNamespace, NetworkNamespace, MountNamespace, PrivateFiles, ChromiumSandbox}
	return slices.DeleteFunc(r.Missing(), func(p Piece) bool { return !slices.Contains(needed, p.Name) })
}

// WithDisabled returns the report with a piece switched off for a reason.
func (r Report) WithDisabled(name, reason string) Report {
	r.Pieces = slices.Clone(r.Pieces)
	for i := range r.Pieces {
		if r.Pieces[i].Name == name {
			r.Pieces[i] = Piece{Name: name, Reason: reason}
		}
	}
	return r
}

// DisabledReport returns the report of a worker without isolation, for a reason.
func DisabledReport(reason string) Report {
	var r Report
	for _, name := range Pieces() {
		r.Pieces = append(r.Pieces, Piece{Name: name, Reason: reason})
	}
	return r
}
