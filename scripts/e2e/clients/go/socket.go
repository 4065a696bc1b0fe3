package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// bySocket sends the messages in sequence, with ids from 1, and returns their
// responses.
func bySocket(ctx context.Context, task input) ([]json.RawMessage, error) {
	socket, err := task.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = socket.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	answers := []json.RawMessage{}
	for i, message := range task.Messages {
		if err := socket.Send(bytes.Clone(message)); err != nil {
			return nil, fmt.Errorf("send message %d: %w", i+1, err)
		}
		for answered := 0; answered != i+1; { // messages without an id are events
			answer, err := socket.Read()
			if err != nil {
				return nil, fmt.Errorf("wait for answer %d: %w", i+1, err)
			}
			var head struct{ ID int }
			if err := json.Unmarshal(answer, &head); err != nil {
				return nil, fmt.Errorf("answer %q: %w", answer, err)
			}
			if answered = head.ID; answered == i+1 {
				answers = append(answers, answer)
			}
		}
	}
	return answers, nil
}
