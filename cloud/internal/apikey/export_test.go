package apikey

// Written waits until every use so far is written.
func (a *Authenticator) Written() { a.uses.writes.Wait() }
