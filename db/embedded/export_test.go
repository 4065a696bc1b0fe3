package embedded

// Port returns the port on 127.0.0.1; 0 without Options.TCP.
func (s *Server) Port() int {
	if !s.tcp {
		return 0
	}
	return s.port
}
