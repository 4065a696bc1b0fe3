/** A choice of one of a few values, all of which are visible. */
export function Segments<Value extends string>({
  label,
  name,
  value,
  options,
  onChange,
}: {
  label: string;
  /** The name of the radio buttons, unique on the page. */
  name: string;
  value: Value;
  options: readonly (readonly [value: Value, label: string])[];
  onChange: (value: Value) => void;
}) {
  return (
    <fieldset class="segments">
      <legend class="visually-hidden">{label}</legend>
      {options.map(([option, title]) => (
        <label key={option}>
          <input type="radio" name={name} checked={option === value} onChange={() => onChange(option)} />
          {title}
        </label>
      ))}
    </fieldset>
  );
}
