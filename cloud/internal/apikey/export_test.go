package apikey

// WaitUses waits until every use so far is written.
func (a *Authenticator) WaitUses() { a.uses.writes.Wait() }
