import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { Button, toLocalInput } from "../../../shared/web/ui";
import { texts } from "../texts/sessions";
import { useKeyNames, useMachineNames } from "./fleet";
import { ProfileFilter } from "./profile-filter";
import { isFiltered, noFilters, sortOf, type ChangeAddress, type SessionAddress } from "./session-address";

interface Props {
  address: SessionAddress;
  change: ChangeAddress;
}

/** The filters and the order of the session list. All are in the address. */
export function SessionFilters({ address, change }: Props) {
  const keys = useKeyNames();
  const machines = useMachineNames();
  const { by, order } = sortOf(address);
  return (
    <div class="toolbar" role="group" aria-label={texts.filters}>
      <Choice
        label={texts.status}
        empty={texts.anyStatus}
        value={address.status}
        options={Object.entries(texts.statuses)}
        onChange={(status) => change({ status })}
      />
      <ProfileFilter profileId={address.profileId} onChange={(profileId) => change({ profileId })} />
      <Choice
        label={texts.machine}
        empty={texts.anyMachine}
        value={address.machineId}
        options={[...machines].sort(([, a], [, b]) => a.localeCompare(b, "en", { numeric: true }))}
        onChange={(machineId) => change({ machineId })}
      />
      <Choice
        label={texts.key}
        empty={texts.anyKey}
        unknown={texts.unknownKey}
        value={address.keyId}
        options={[...keys]}
        onChange={(keyId) => change({ keyId })}
      />
      <TextInput label={texts.name} value={address.name} onChange={(name) => change({ name })} />
      <TextInput
        label={texts.label}
        placeholder={texts.labelHint}
        pattern="[^=]+=.*"
        value={address.label}
        onChange={(label) => change({ label })}
      />
      <TimeFilter address={address} change={change} />
      <Choice
        label={texts.order}
        value={`${by} ${order}`}
        options={Object.entries(texts.orders)}
        onChange={(value) => {
          const [sortBy, sortOrder] = value.split(" ");
          change({ sortBy, sortOrder });
        }}
      />
      {isFiltered(address) && (
        <Button kind="quiet" icon="close" onClick={() => change(noFilters)}>
          {texts.clearFilters}
        </Button>
      )}
    </div>
  );
}

function Labelled({ label, children }: { label: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field session-filter">
      <label for={id}>{label}</label>
      {children(id)}
    </div>
  );
}

/** A list of choices. A value without an option, for example of a deleted machine, gets one. */
function Choice({
  label,
  empty,
  unknown,
  value,
  options,
  onChange,
}: {
  label: string;
  empty?: string;
  unknown?: string;
  value: string | undefined;
  options: [value: string, label: string][];
  onChange: (value: string) => void;
}) {
  const missing = value && !options.some(([v]) => v === value);
  return (
    <Labelled label={label}>
      {(id) => (
        <select id={id} class="select" value={value ?? ""} onChange={(event) => onChange(event.currentTarget.value)}>
          {empty !== undefined && <option value="">{empty}</option>}
          {missing && <option value={value}>{unknown ?? value}</option>}
          {options.map(([v, text]) => (
            <option key={v} value={v}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  );
}

/** The time of the start: a quick range until now, or two times. */
function TimeFilter({ address, change }: Props) {
  const [custom, setCustom] = useState(false);
  const dated = Boolean(address.from || address.to);
  const value = address.range ?? (dated || custom ? "custom" : "");
  const choose = (range: string) => {
    setCustom(range === "custom");
    if (range === "custom") change({ range: "" });
    else change({ range, from: "", to: "" });
  };
  const { all, ...named } = texts.ranges;
  return (
    <>
      <Choice label={texts.range} empty={all} value={value} options={Object.entries(named)} onChange={choose} />
      {value === "custom" && (
        <>
          <TimeInput label={texts.from} value={address.from} onChange={(from) => change({ from })} />
          <TimeInput label={texts.to} value={address.to} onChange={(to) => change({ to })} />
        </>
      )}
    </>
  );
}

/** A text. It applies when the input is left or Enter is pressed, if it matches the pattern. */
function TextInput({
  label,
  value,
  onChange,
  ...input
}: {
  label: string;
  value: string | undefined;
  onChange: (text: string) => void;
  placeholder?: string;
  pattern?: string;
}) {
  const apply = (field: HTMLInputElement) => {
    if (field.value !== (value ?? "") && field.reportValidity()) onChange(field.value);
  };
  return (
    <Labelled label={label}>
      {(id) => (
        <input
          id={id}
          class="input"
          {...input}
          value={value ?? ""}
          onBlur={(event) => apply(event.currentTarget)}
          onKeyDown={(event) => {
            if (event.key === "Enter") apply(event.currentTarget);
          }}
        />
      )}
    </Labelled>
  );
}

/** A date and time. It applies when the input is left or Enter is pressed, not at each typed digit. */
function TimeInput({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | undefined;
  onChange: (iso: string) => void;
}) {
  const [text, setText] = useState(toLocalInput(value));
  useEffect(() => setText(toLocalInput(value)), [value]);
  const apply = () => {
    if (text === toLocalInput(value)) return;
    const at = new Date(text);
    onChange(Number.isNaN(at.getTime()) ? "" : at.toISOString());
  };
  return (
    <Labelled label={label}>
      {(id) => (
        <input
          id={id}
          type="datetime-local"
          class="input"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onBlur={apply}
          onKeyDown={(event) => {
            if (event.key === "Enter") apply();
          }}
        />
      )}
    </Labelled>
  );
}
