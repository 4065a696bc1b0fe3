package embedded

// Port returns the port on 127.0.0.1; 0 without Options.TCP.
func (s *Server) Port() int {
	if !s.tcp {
		return 0
	}
	return s.port
}

// Err returns why the server exited, with the end of its log; nil if Stop stopped
// it or if it is running.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}
