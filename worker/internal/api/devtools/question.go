package devtools

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
)

// listQuestions answers with the documents that wait for a person.
func (s *Service) listQuestions(c echo.Context, v access.AuthorizedRequest) error {
	answer := workerapi.HandoverQuestionListResponse{Success: true, Data: workerapi.HandoverQuestionList{Items: []workerapi.HandoverQuestion{}}}
	for _, q := range v.Calls.Handovers().Questions() {
		answer.Data.Items = append(answer.Data.Items, questionToAPI(q))
	}
	return c.JSON(http.StatusOK, answer)
}

// answerQuestion passes the decision of a person on. Package access admits no view ticket.
func (s *Service) answerQuestion(c echo.Context, v access.AuthorizedRequest) error {
	var request workerapi.AnswerHandoverQuestionRequest
	if err := decode(c, &request); err != nil {
		return err
	}
	id, err := uuid.Parse(c.Param("questionId"))
	if err != nil {
		return fmt.Errorf("question id: %w", err) // the document allows only ids
	}
	q, err := v.Calls.Handovers().Answer(id, handover.Decision(request.Answer))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, workerapi.HandoverQuestionResponse{Success: true, Data: questionToAPI(q)})
}

func questionToAPI(q *handover.Question) workerapi.HandoverQuestion {
	return workerapi.HandoverQuestion{Id: q.ID, Url: q.URL, Origin: q.Origin, Rule: q.Rule, Since: q.Since, Until: q.Until}
}
