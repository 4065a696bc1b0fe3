package cdp

// AutoAttach returns the parameters of Target.setAutoAttach that attach, with flat
// sessions, to existing and future targets of some types. With wait, new targets do not
// run before Runtime.runIfWaitingForDebugger.
func AutoAttach(wait bool, types ...string) map[string]any {
	filter := make([]map[string]any, 0, len(types)+1)
	for _, kind := range types {
		filter = append(filter, map[string]any{"type": kind})
	}
	return map[string]any{
		"autoAttach": true, "waitForDebuggerOnStart": wait, "flatten": true, "filter": append(filter, map[string]any{"exclude": true}),
	}
}
