package resume

import "sync/atomic"

// results counts resumes: element 0 those that succeeded, the others those that were
// refused, by close status from TakenOver.
type results [6]atomic.Int64

// resultNames are the names of the elements of results.
var resultNames = [...]string{"resumed", "taken_over", "nothing_to_resume", "expired", "buffer_exceeded", "ahead"}

// succeeded is the status of a resume that succeeded, for count.
const succeeded = TakenOver - 1

func (r *results) count(status uint16) {
	if r != nil && status >= succeeded && int(status-succeeded) < len(r) {
		r[status-succeeded].Add(1)
	}
}

// Results returns the numbers of resumes so far, by result.
func (cs *Connections) Results() map[string]int64 {
	all := make(map[string]int64, len(resultNames))
	for i, name := range resultNames {
		all[name] = cs.results[i].Load()
	}
	return all
}
