package apikey

// WaitUses waits until all recorded uses are written.
func (a *Authenticator) WaitUses() { a.uses.writes.Wait() }
