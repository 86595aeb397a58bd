// Valid frames, messages, predicates and programs to start from.
#pragma once
#include <string>
#include <string_view>

#include "tidings/codec/predicate.hpp"
#include "tidings/codec/program.hpp"
#include "tidings/codec/writer.hpp"

namespace tidings::seeds {

// No conjunction has a constraint: always true.
inline const std::string everything("\x01\x00\x00", 3);

inline std::string frame(uint8_t type, std::string_view payload, uint16_t session = 0) {
    std::string out;
    Writer writer(out);
    writer.fixed(static_cast<uint32_t>(payload.size()));
    writer.u8(type);
    writer.u8(0);
    writer.fixed<uint16_t>(session);
    writer.bytes(payload);
    return out;
}

inline std::string message(bool headers) {
    std::string out;
    MessageWriter writer(out);
    writer.begin(headers ? 5 : 2, 7, "0123456789abcdef",
                 headers ? "ticks.xyz"
                         : "b\xC3\xBC"
                           "ro");
    if (headers) {
        writer.attribute("JMSCorrelationID", Value::string("c"));
        writer.attribute("JMSType", Value::string("t"));
        writer.attribute("JMSReplyTo", Value::string("queue:a.b"));
        writer.attribute("JMSTimestamp", Value::integer(1));
        writer.attribute("JMSExpiration", Value::integer(1700000000000));
    }
    writer.attribute("a", Value::string("ab\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"));
    writer.attribute("b", Value::integer(-300));
    writer.attribute("c", Value::real(1.5));
    writer.attribute("d", Value::boolean(true));
    writer.attribute("e", Value::bytes("\x01\xFF"));
    writer.attribute("f", Value::text("-12.5e1"));
    writer.finish("body");
    return out;
}

inline std::string many_attributes() {
    std::string out;
    MessageWriter writer(out);
    writer.begin(0, 4, "0123456789abcdef", "many");
    for (int i = 0; i < 40; ++i) writer.attribute("n" + std::to_string(i), Value::integer(i));
    writer.finish("");
    return out;
}

inline std::string constraint(Op op, std::string_view name, const Value& value, bool negated = false) {
    std::string out;
    Writer writer(out);
    writer.u8(static_cast<uint8_t>(static_cast<uint8_t>(op) | (negated ? 0x80 : 0)));
    writer.name(name);
    if (op < Op::Exists) writer.value(value);
    return out;
}

inline std::string list_constraint() {
    std::string out;
    Writer writer(out);
    writer.u8(static_cast<uint8_t>(Op::In));
    writer.name("b");
    writer.u8(6);
    writer.varint(3);
    for (const Value& value : {Value::integer(-300), Value::real(2.5), Value::string("x")}) writer.value(value);
    return out;
}

// price > 20 AND NOT a LIKE 'x%_' OR c IS NULL, by hand.
inline std::string program() {
    std::string out;
    Writer writer(out);
    const auto code = [&](Code one) { writer.u8(static_cast<uint8_t>(one)); };
    const auto attribute = [&](std::string_view name) {
        code(Code::Attr);
        writer.name(name);
    };
    attribute("b");
    code(Code::Const);
    writer.value(Value::integer(20));
    code(Code::Mul);
    attribute("c");
    code(Code::Gt);
    attribute("a");
    code(Code::Like);
    writer.value(Value::string("%b_\xE2\x82\xAC%"));
    code(Code::Not);
    code(Code::And);
    attribute("d");
    code(Code::IsNull);
    code(Code::Or);
    attribute("b");
    code(Code::Neg);
    code(Code::In);
    writer.u8(6);
    writer.varint(2);
    writer.value(Value::integer(300));
    writer.value(Value::string("x"));
    code(Code::Or);
    return out;
}

}  // namespace tidings::seeds
