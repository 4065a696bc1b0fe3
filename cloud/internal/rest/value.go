package rest

// valueOr is what the pointer points to, or the fallback when it is nil.
func valueOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}
