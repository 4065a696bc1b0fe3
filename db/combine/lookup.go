package combine

// Lookup answers a batch of questions that only read: find is asked once, for the
// distinct ones in order of arrival, and what it leaves out has the zero answer.
func Lookup[Q comparable, A any](batch []Q, find func(distinct []Q) (map[Q]A, error)) ([]A, error) {
	found, err := find(Distinct(batch))
	if err != nil {
		return nil, err
	}
	answers := make([]A, len(batch))
	for i, q := range batch {
		answers[i] = found[q]
	}
	return answers, nil
}

// Distinct keeps the first of each.
func Distinct[Q comparable](all []Q) []Q {
	seen := make(map[Q]bool, len(all))
	distinct := make([]Q, 0, len(all))
	for _, q := range all {
		if !seen[q] {
			seen[q] = true
			distinct = append(distinct, q)
		}
	}
	return distinct
}
