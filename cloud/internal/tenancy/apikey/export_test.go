package apikey

// WaitUses waits until all recorded uses are written.
func (v *Verifier) WaitUses() { v.uses.writes.Wait() }
