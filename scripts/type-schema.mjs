import ts from 'typescript-api';

const { TypeFlags, SymbolFlags } = ts;
/** A brand, and other properties that have a symbol as their name. */
const OF_SYMBOL = /^__[@#]/;

/** JSON Schemas of types, as `JSON.stringify` writes their values. Named types become definitions. */
export class SchemaWriter {
  #checker;
  #names = new Map();
  definitions = {};

  constructor(checker) {
    this.#checker = checker;
  }

  /** A value of one of the types. */
  union(types) {
    const parts = types.flatMap((type) => (type.isUnion() ? type.types : [type])).filter((type) => !isNothing(type));
    if (parts.some((type) => type.flags & (TypeFlags.Any | TypeFlags.Unknown))) return {};
    const literals = parts.filter((type) => type.isStringLiteral() || type.isNumberLiteral()).map(({ value }) => value);
    const schemas = [
      ...(literals.length > 0 ? [{ enum: [...new Set(literals)].sort() }] : []),
      ...booleans(parts),
      ...parts.filter((type) => !isLiteral(type)).map((type) => this.#of(type)),
    ];
    const simple = schemas.filter((schema) => typeof schema.type === 'string' && Object.keys(schema).length === 1);
    if (simple.length > 1) {
      const types = [...new Set(simple.map(({ type }) => type))].sort();
      const others = schemas.filter((schema) => !simple.includes(schema));
      schemas.splice(0, schemas.length, ...others, { type: types.length === 1 ? types[0] : types });
    }
    const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
    if (distinct.length === 0) return { not: {} };
    if (distinct.some((schema) => Object.keys(schema).length === 0)) return {};
    return distinct.length === 1 ? distinct[0] : { anyOf: distinct };
  }

  #of(type) {
    const { flags } = type;
    if (flags & (TypeFlags.String | TypeFlags.TemplateLiteral)) return { type: 'string' };
    if (flags & TypeFlags.Number) return { type: 'number' };
    if (flags & TypeFlags.Null) return { type: 'null' };
    if (type.isUnion()) return this.union([type]);
    if (type.isIntersection()) {
      const primitive = type.types.find((part) => part.flags & (TypeFlags.String | TypeFlags.Number));
      if (primitive) return this.#of(primitive);
    }
    if (!(flags & (TypeFlags.Object | TypeFlags.Intersection))) return {};
    const json = this.#checker.getPropertyOfType(type, 'toJSON');
    if (json) return this.union([this.#written(json)]);
    if (this.#checker.isTupleType(type) || this.#checker.isArrayType(type)) return this.#list(type);
    const name = nameOf(type);
    return name === undefined ? this.#object(type) : this.#named(name, type);
  }

  #written(method) {
    const [signature] = this.#checker.getTypeOfSymbol(method).getCallSignatures();
    return signature.getReturnType();
  }

  #list(type) {
    const members = this.#checker.getTypeArguments(type);
    return { type: 'array', items: members.length === 0 ? {} : this.union(members) };
  }

  /** Types of one name in two files, and one generic type with two arguments, are told apart by a number. */
  #named(name, type) {
    let known = this.#names.get(type);
    if (known === undefined) {
      const taken = [...this.#names.values()];
      known = name;
      for (let next = 2; taken.includes(known); next++) known = `${name}${next}`;
      this.#names.set(type, known);
      this.definitions[known] = {};
      this.definitions[known] = this.#object(type);
    }
    return { $ref: `#/$defs/${known}` };
  }

  #object(type) {
    const properties = {};
    const required = [];
    for (const symbol of this.#checker.getPropertiesOfType(type)) {
      if (OF_SYMBOL.test(symbol.name) || symbol.flags & SymbolFlags.Method) continue;
      const member = this.#checker.getTypeOfSymbol(symbol);
      if (member.getCallSignatures().length > 0) continue;
      const parts = member.isUnion() ? member.types : [member];
      const isOptional = symbol.flags & SymbolFlags.Optional || parts.some(isNothing);
      const always = parts.every((part) => part.flags & (TypeFlags.Any | TypeFlags.Unknown));
      const description = ts.displayPartsToString(symbol.getDocumentationComment(this.#checker)).replace(/\s+/g, ' ');
      properties[symbol.name] = { ...(description !== '' && { description }), ...this.union([member]) };
      if (!isOptional && !always) required.push(symbol.name);
    }
    const index = this.#checker.getIndexInfosOfType(type)[0];
    return {
      type: 'object',
      ...(Object.keys(properties).length > 0 && { properties }),
      ...(required.length > 0 && { required }),
      ...(index && { additionalProperties: this.union([index.type]) }),
    };
  }
}

/** `JSON.stringify` leaves these out. */
function isNothing({ flags }) {
  return (flags & (TypeFlags.Undefined | TypeFlags.Void | TypeFlags.Never)) !== 0;
}

function isLiteral(type) {
  return type.isStringLiteral() || type.isNumberLiteral() || (type.flags & TypeFlags.BooleanLiteral) !== 0;
}

function booleans(parts) {
  const values = new Set(
    parts.filter(({ flags }) => flags & TypeFlags.BooleanLiteral).map((type) => type.intrinsicName === 'true'),
  );
  if (values.size === 2) return [{ type: 'boolean' }];
  return values.size === 1 ? [{ const: [...values][0] }] : [];
}

function nameOf(type) {
  const name = type.aliasSymbol?.name ?? type.symbol?.name;
  return name === undefined || /^(__|Record$|Pick$|Omit$|Partial$|Readonly$|Required$)/.test(name) ? undefined : name;
}
