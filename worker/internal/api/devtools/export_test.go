package devtools

// OpenTasks returns the number of running tasks of all launches.
func (s *Service) OpenTasks() (n int) {
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	for _, count := range s.tasks.open {
		n += count
	}
	return n
}
